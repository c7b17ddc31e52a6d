"""Checks TOML documents against models. Errors name the line and the remedy."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, LiteralString, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from softband_lab.base.errors import LabError
from softband_lab.base.spelling import nearest, suggest
from softband_lab.base.toml_lines import Step, place

_UNKNOWN_KEY: LiteralString = "unknown_key"


class Strict(BaseModel):
    """A model that refuses unknown keys, because a misspelt key would have no effect."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _knows_every_key(cls, document: Any) -> Any:
        """Looks for unknown keys before missing ones: a missing key may be there under a misspelt name."""
        if isinstance(document, dict):
            known = [field.alias or name for name, field in cls.model_fields.items()]
            for key in document:
                if key not in known:
                    remedy = _rename(key, known, [name for name in known if name not in document])
                    raise PydanticCustomError(_UNKNOWN_KEY, "is not a key here", {"key": key, "remedy": remedy})
        return document


AnyModel = TypeVar("AnyModel", bound=BaseModel)


def parse_model(model: type[AnyModel], document: dict[str, Any], path: Path) -> AnyModel:
    """Converts a raw document. Fails with a `LabError` that names the place and the remedy of the first mistake."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        steps = _without_kinds(first["loc"], document)
        problem, remedy = _explain(first)
        if first["type"] == _UNKNOWN_KEY:
            steps.append(first["ctx"]["key"])
        raise LabError(place(path, steps), problem, remedy) from None


def _rename(key: str, known: list[str], free: list[str]) -> str:
    """Returns the remedy for an unknown key. `free`: known keys that the document does not have."""
    # `[test.b]` may belong to a table `[tests]` that the document has as well.
    near = nearest(key, free) or nearest(key, known)
    return f"did you mean `{near}`?" if near else f"remove it, or one of {', '.join(known)}"


def _explain(error: ErrorDetails) -> tuple[str, str]:
    if error["type"] == _UNKNOWN_KEY:
        return error["msg"], error["ctx"]["remedy"]
    if error["type"] == "missing":
        name = error["loc"][-1]
        return "is missing", f"add `{name} = ...`, or `[{name}]` where it is a table"
    words = re.findall(r"'([^']*)'", str(error.get("ctx", {}).get("expected", "")))
    if error["type"] == "literal_error" and words:
        return f"`{error['input']}` is not known", suggest(str(error["input"]), words)
    return error["msg"], "a value of the kind that the message names"


def _without_kinds(loc: tuple[Step, ...], document: Any) -> list[Step]:
    """Removes the kind of a rule from a path: pydantic puts it behind the id, but the file has it as a value."""
    steps: list[Step] = []
    value, is_new = document, True
    for step in loc:
        if is_new and isinstance(value, dict) and step == value.get("kind"):
            is_new = False
            continue
        steps.append(step)
        try:
            value, is_new = value[step], True
        except (LookupError, TypeError):
            value = None
    return steps
