"""Where a flow keeps the rows that its sinks' servers refuse, with the reasons: the batch goes on without them, and nobody loses them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ingest.flows.refused_rows import Refused, refuse_too_many
from ingest.lake.delta.commit import Committer, Identity
from ingest.lake.delta.spark_table import SparkTable

COLUMNS = "checkpoint string, batch_id bigint, sink string, reason string, row string, hash string, attempt int"
"""Of the table. ``row``: as JSON; ``hash``: of what it is told by; ``attempt``: by which commit of the batch it came, from 0."""


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
