"""The part of Thrift's compact protocol that the metadata of Parquet files uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_TRUE, _FALSE, _I32, _I64, _BINARY, _LIST, _STRUCT = 1, 2, 5, 6, 8, 9, 12


@dataclass(frozen=True)
class Field:
    """A value with its type code."""

    type: int
    value: Any
    # The type of the elements of a list.
    element: int = 0

    @staticmethod
    def i32(value: int) -> Field:
        return Field(_I32, value)

    @staticmethod
    def i64(value: int) -> Field:
        return Field(_I64, value)

    @staticmethod
    def text(value: str) -> Field:
        return Field(_BINARY, value.encode())

    @staticmethod
    def struct(value: Struct) -> Field:
        return Field(_STRUCT, value)

    @staticmethod
    def i32s(values: list[int]) -> Field:
        return Field(_LIST, values, _I32)

    @staticmethod
    def texts(values: list[str]) -> Field:
        return Field(_LIST, [value.encode() for value in values], _BINARY)

    @staticmethod
    def structs(values: list[Struct]) -> Field:
        return Field(_LIST, values, _STRUCT)


# Fields by number, in ascending order.
Struct = dict[int, Field]


def write_varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_struct(fields: Struct) -> bytes:
    out, last = bytearray(), 0
    for number, field in fields.items():
        assert 0 < number - last < 16
        out.append((number - last) << 4 | field.type)
        out += _write(field.type, field.value, field.element)
        last = number
    return bytes(out) + b"\0"


def _write(kind: int, value: Any, element: int = 0) -> bytes:
    if kind in (_I32, _I64):
        return write_varint(value << 1 if value >= 0 else (-value << 1) - 1)
    if kind == _BINARY:
        return write_varint(len(value)) + bytes(value)
    if kind == _STRUCT:
        return write_struct(value)
    head = bytes([len(value) << 4 | element]) if len(value) < 15 else bytes([0xF0 | element]) + write_varint(len(value))
    return head + b"".join(_write(element, one) for one in value)


def read_struct(content: bytes, place: int) -> tuple[dict[int, Any], int]:
    """Returns the values of a struct by field number, and the offset behind it."""
    found: dict[int, Any] = {}
    number = 0
    while content[place] != 0:
        head, place = content[place], place + 1
        if not head >> 4:
            raise ValueError("has a field that is far from the one before")
        number += head >> 4
        found[number], place = _read(head & 15, content, place)
    return found, place + 1


def _read(kind: int, content: bytes, place: int) -> tuple[Any, int]:
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE, place
    if kind in (_I32, _I64):
        number, place = _read_varint(content, place)
        return number >> 1 ^ -(number & 1), place
    if kind == _BINARY:
        size, place = _read_varint(content, place)
        return content[place : place + size], place + size
    if kind == _STRUCT:
        return read_struct(content, place)
    if kind != _LIST:
        raise ValueError(f"has a field of the type {kind}")
    head, place = content[place], place + 1
    size, element = head >> 4, head & 15
    if size == 15:
        size, place = _read_varint(content, place)
    values = []
    for _ in range(size):
        value, place = _read(element, content, place)
        values.append(value)
    return values, place


def _read_varint(content: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place
