"""Tables as Polars data frames, if Polars is installed."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from softband_lab.base.errors import LabError
from softband_lab.base.tables import Kind, Table

if TYPE_CHECKING:
    import polars as pl


def require_polars() -> Any:
    """Returns the module `polars`. Fails with a `LabError` if it is not installed."""
    try:
        return importlib.import_module("polars")
    except ImportError:
        raise LabError(
            "softband_lab",
            "returns Polars data frames, and Polars is not installed here",
            "pip install polars (or the extra: pip install 'softband-lab[frames]')",
        ) from None


def data_frame(table: Table) -> pl.DataFrame:
    """Returns a table as a data frame with the same columns and types; empty fields become nulls."""
    polars = require_polars()
    types = {
        Kind.STRING: polars.String,
        Kind.INT: polars.Int64,
        Kind.UINT: polars.UInt64,
        Kind.FLOAT: polars.Float64,
        Kind.BOOL: polars.Boolean,
    }
    frame: pl.DataFrame = polars.DataFrame(
        table.columns, schema={name: types[kind] for name, kind in table.schema.items()}
    )
    return frame
