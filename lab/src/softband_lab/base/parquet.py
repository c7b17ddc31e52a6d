"""Writes tables as Parquet files for any reader, and reads its own files.

Each column is optional, in plain encoding and compressed with gzip; metadata is in Thrift's compact protocol.
https://github.com/apache/parquet-format has all names and numbers of fields.
"""

from __future__ import annotations

import struct
import sys
import zlib
from array import array
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from softband_lab.base.tables import Kind, Table
from softband_lab.base.thrift import Field, Struct, read_struct, write_struct, write_varint

_MAGIC = b"PAR1"
# Keeps a page far below the 2 GB that its header can express.
_ROWS_OF_A_GROUP = 500_000
_BOOLEAN, _INT64, _DOUBLE, _BYTE_ARRAY = 0, 2, 5, 6
_UTF8, _UINT_64 = 0, 14
_TYPES = {
    Kind.STRING: (_BYTE_ARRAY, _UTF8),
    Kind.INT: (_INT64, None),
    Kind.UINT: (_INT64, _UINT_64),
    Kind.FLOAT: (_DOUBLE, None),
    Kind.BOOL: (_BOOLEAN, None),
}
_OPTIONAL, _PLAIN, _RLE, _GZIP, _DATA_PAGE = 1, 0, 3, 2, 0
_CODES = {Kind.INT: "q", Kind.UINT: "Q", Kind.FLOAT: "d"}


class NotOurs(Exception):
    """The file was not written by `parquet_bytes`."""


def parquet_bytes(table: Table) -> bytes:
    out = bytearray(_MAGIC)
    groups: list[Struct] = []
    for start in range(0, table.height, _ROWS_OF_A_GROUP):
        end = min(start + _ROWS_OF_A_GROUP, table.height)
        chunks = [_write_chunk(out, name, kind, table.columns[name][start:end]) for name, kind in table.schema.items()]
        size = sum(chunk_size for _, chunk_size in chunks)
        groups.append({1: Field.structs([chunk for chunk, _ in chunks]), 2: Field.i64(size), 3: Field.i64(end - start)})
    leaves = [_schema_element(name, kind) for name, kind in table.schema.items()]
    footer = write_struct({
        1: Field.i32(1),
        2: Field.structs([{4: Field.text("table"), 5: Field.i32(len(leaves))}, *leaves]),
        3: Field.i64(table.height),
        4: Field.structs(groups),
        6: Field.text("softband-lab"),
    })  # fmt: skip
    return bytes(out) + footer + struct.pack("<I", len(footer)) + _MAGIC


def _schema_element(name: str, kind: Kind) -> Struct:
    physical, converted = _TYPES[kind]
    element = {1: Field.i32(physical), 3: Field.i32(_OPTIONAL), 4: Field.text(name)}
    return element if converted is None else {**element, 6: Field.i32(converted)}


def _write_chunk(out: bytearray, name: str, kind: Kind, values: list[Any]) -> tuple[Struct, int]:
    """Writes all values of a column of a group as a page. Returns its metadata and its size before compression."""
    content = _levels(values) + _plain([value for value in values if value is not None], kind)
    packed = _gzip(content)
    head = write_struct({
        1: Field.i32(_DATA_PAGE),
        2: Field.i32(len(content)),
        3: Field.i32(len(packed)),
        5: Field.struct({
            1: Field.i32(len(values)), 2: Field.i32(_PLAIN), 3: Field.i32(_RLE), 4: Field.i32(_RLE),
        }),
    })  # fmt: skip
    place = len(out)
    out += head + packed
    size = len(head) + len(content)
    data = {
        1: Field.i32(_TYPES[kind][0]),
        2: Field.i32s([_PLAIN, _RLE]),
        3: Field.texts([name]),
        4: Field.i32(_GZIP),
        5: Field.i64(len(values)),
        6: Field.i64(size),
        7: Field.i64(len(head) + len(packed)),
        9: Field.i64(place),
    }
    return {2: Field.i64(place), 3: Field.struct(data)}, size


def _gzip(content: bytes) -> bytes:
    """Compresses without a date and a system name, so that the same content gives the same bytes."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    packed = bytearray(packer.compress(content) + packer.flush())
    packed[4:8], packed[9] = bytes(4), 255
    return bytes(packed)


def _levels(values: Sequence[Any]) -> bytes:
    """Encodes the presence of values as runs of ones and zeros, after the size of the encoding in bytes."""
    runs = bytearray()
    for is_there, run in groupby(values, key=lambda value: value is not None):
        runs += write_varint(sum(1 for _ in run) << 1) + bytes([is_there])
    return struct.pack("<I", len(runs)) + bytes(runs)


def _plain(values: list[Any], kind: Kind) -> bytes:
    if kind is Kind.STRING:
        known = {value: value.encode() for value in set(values)}
        packed = {value: struct.pack("<I", len(text)) + text for value, text in known.items()}
        return b"".join([packed[value] for value in values])
    if kind is Kind.BOOL:
        bits = sum(1 << place for place, value in enumerate(values) if value)
        return bits.to_bytes((len(values) + 7) // 8, "little")
    return _little(array(_CODES[kind], values)).tobytes()


def _little(numbers: array[Any]) -> array[Any]:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def read_parquet(content: bytes) -> Table:
    """Reads a file that `parquet_bytes` wrote. Raises NotOurs for other files."""
    try:
        return _read(content)
    except (LookupError, ValueError, TypeError, struct.error, zlib.error) as error:
        raise NotOurs(f"cannot be read as a table of the lab: {error}") from None


def _read(content: bytes) -> Table:
    if content[:4] != _MAGIC or content[-4:] != _MAGIC:
        raise ValueError("is no Parquet file")
    (size,) = struct.unpack("<I", content[-8:-4])
    footer, _ = read_struct(content, len(content) - 8 - size)
    schema = {leaf[4].decode(): _kind_of(leaf) for leaf in footer[2][1:]}
    columns: dict[str, list[Any]] = {name: [] for name in schema}
    for group in footer[4]:
        for (name, kind), chunk in zip(schema.items(), group[1], strict=True):
            columns[name] += _read_chunk(content, chunk[3], kind)
    if any(len(values) != footer[3] for values in columns.values()):
        raise ValueError("its columns have other lengths than it says")
    return Table(schema, columns)


def _kind_of(leaf: dict[int, Any]) -> Kind:
    if leaf[3] != _OPTIONAL:
        raise ValueError("has a column that is not optional")
    return next(kind for kind, which in _TYPES.items() if which == (leaf[1], leaf.get(6)))


def _read_chunk(content: bytes, data: dict[int, Any], kind: Kind) -> list[Any]:
    head, start = read_struct(content, data[9])
    page = head[5]
    if data[4] != _GZIP or head[1] != _DATA_PAGE or page[1] != data[5] or (page[2], page[3]) != (_PLAIN, _RLE):
        raise ValueError("has pages of another encoding")
    raw = zlib.decompress(content[start : start + head[3]], 31)
    (levels_size,) = struct.unpack_from("<I", raw)
    is_there = _read_levels(raw[4 : 4 + levels_size], page[1])
    values = iter(_read_plain(raw[4 + levels_size :], kind, sum(is_there)))
    return [next(values) if there else None for there in is_there]


def _read_levels(runs: bytes, count: int) -> list[bool]:
    found: list[bool] = []
    place = 0
    while place < len(runs):
        length = shift = 0
        while True:
            length |= (runs[place] & 0x7F) << shift
            place, shift = place + 1, shift + 7
            if runs[place - 1] < 0x80:
                break
        if length & 1:
            raise ValueError("has levels of another encoding")
        found += [bool(runs[place])] * (length >> 1)
        place += 1
    if len(found) != count:
        raise ValueError("has other levels than values")
    return found


def _read_plain(raw: bytes, kind: Kind, count: int) -> list[Any]:
    if kind is Kind.STRING:
        texts, place = [], 0
        for _ in range(count):
            (size,) = struct.unpack_from("<I", raw, place)
            texts.append(raw[place + 4 : place + 4 + size].decode())
            place += 4 + size
        return texts
    if kind is Kind.BOOL:
        bits = int.from_bytes(raw, "little")
        return [bool(bits >> place & 1) for place in range(count)]
    numbers = array(_CODES[kind])
    numbers.frombytes(raw)
    return _little(numbers).tolist()
