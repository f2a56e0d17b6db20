"""Rows that a sink's server refuses, kept beside the flow with the reason: the batch goes on without them, and nobody loses them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ingest.lake.delta.commit import Committer, Identity
from ingest.lake.delta.spark_table import SparkTable
from ingest.model.errors import IngestError

COLUMNS = "checkpoint string, batch_id bigint, sink string, reason string, row string, hash string, attempt int"
"""Of the table. ``row``: as JSON; ``hash``: of what it is told by; ``attempt``: by which commit of the batch it came, from 0."""

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


@dataclass(frozen=True)
class RefusedRows:
    """The table of one flow. ``app_id``: under which it is written; ``checkpoint``: of the flow now."""

    session: SparkSession
    path: str
    committer: Committer
    app_id: str
    checkpoint: str

    def keep(self, sink: str, number: int, found: Sequence[Refused]) -> int:
        """Those of a batch that are not there yet. It may come again and be refused other rows, since somebody has changed the server's table in
        between; so what is there is told by content. Raises :class:`IngestError` for too many. Returns how many came now.
        """
        if not found:
            return 0
        refuse_too_many(sink, found)
        table = SparkTable(self.session, self.path)
        attempt, told = 0, set[str]()
        if table.exists():
            of_batch = F.col("checkpoint").eqNullSafe(self.checkpoint) & (
                F.col("batch_id") == number
            )
            held = table.frame().where(of_batch).select("sink", "hash", "attempt").collect()
            attempt = max((row.attempt + 1 for row in held), default=0)
            told = {row.hash for row in held if row.sink == sink}
        seen, rows = dict[str, int](), []
        for one in found:
            nth = seen[one.row] = seen.get(one.row, 0) + 1
            digest = hashlib.sha256(f"{nth}/{one.row}".encode()).hexdigest()
            if digest not in told:
                rows.append(
                    (self.checkpoint, number, sink, one.reason[:1000], one.row, digest, attempt)
                )
        if rows:
            frame: DataFrame = self.session.createDataFrame(rows, COLUMNS)
            identity = Identity(self.app_id, number + 1, attempt)
            self.committer.append_once(self.session, self.path, COLUMNS, frame, identity)
        return len(rows)


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
