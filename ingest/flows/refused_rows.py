"""Rows that a sink's server refuses, as Spark's tasks hand them back: on whichever machine these run. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ingest.model.errors import IngestError

MOST = 10_000
"""Of one batch. Where a server refuses more, it is not the rows that are wrong."""


@dataclass(frozen=True)
class Refused:
    """A row, as JSON, and the server's words."""

    row: str
    reason: str


def as_json(columns: Sequence[str], row: Sequence[Any]) -> str:
    """Of a row that went to a server."""
    values = {name: _finite(value) for name, value in zip(columns, row, strict=False)}
    return json.dumps(values, default=_text, ensure_ascii=False)


def _finite(value: Any) -> Any:
    """JSON knows no NaN; it is a text, as Spark writes it."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _text(value: Any) -> str:
    return value.hex() if isinstance(value, (bytes, bytearray)) else str(value)


def refuse_too_many(sink: str, found: Sequence[Refused]) -> None:
    """Raises :class:`IngestError` for more than :data:`MOST`."""
    if len(found) <= MOST:
        return
    raise IngestError(
        "E-FLOW-REFUSED",
        f"{sink} refuses more than {MOST:,} rows of one batch, the first with: {found[0].reason}",
        means="Nothing of the batch was taken for written; it comes again.",
        remedy="make the table fit the flow's result, or let the flow's function leave such rows out.",
    )
