"""`ingest audit --change-logs`: is each change log, folded, its table.

Both are read as one batch of the manifest has left them, so nothing has to stand still. Where a log has not all of its table (it was asked for later, or old
days went) rows that only the table has say nothing, and all others are compared.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ingest.changes import folded_log
from ingest.config.pipeline_file import Pipeline
from ingest.lake.delta import change_log_table
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.model.manifest import TableState
from ingest.model.names import RESERVED_COLUMN
from ingest.model.topics import TableId
from ingest.observe.log_verdict import LogResult
from ingest.observe.verdict import MOST_EXAMPLES
from ingest.schema.change_log import BEGINS_PROPERTY
from ingest.targets.target import live_rows


@dataclass(frozen=True)
class LogAudit:
    """Compares one pipeline's change logs, each with its table."""

    pipeline: Pipeline
    session: SparkSession

    def execute(self) -> list[LogResult]:
        """One result for each log that the newest batch of the manifest names; a few Spark jobs each, over the whole log."""
        entry = Ledger(self.pipeline.lake.path).last()
        states = entry.tables if entry else {}
        return [self._result(name, state) for name, state in states.items() if state.log]

    def _result(self, name: str, state: TableState) -> LogResult:
        assert state.log is not None
        held = SparkTable(self.session, state.log.path)
        columns = change_log_table.columns_of(held, None)
        table = SparkTable(self.session, state.path).describe()
        target = self.pipeline.target(TableId.parse(name), keyed=bool(table and not table.multiset))
        log = self._at(state.log.path, state.log.version)
        if table is None or target.outlives:
            return LogResult(
                name, log.count(), note="not compared: its table keeps rows that the source has not"
            )
        rows = self._at(state.path, state.version).filter(live_rows(table.target))
        rows = rows.drop(RESERVED_COLUMN)
        begins = log.filter("operation = 'begin'").isEmpty()
        is_whole = begins and held.property_of(BEGINS_PROPERTY) is None
        wiped = folded_log.wiped(log)
        if not table.multiset:
            compared = folded_log.keyed(log, columns, wiped, rows, table.key)
        elif is_whole:
            compared = folded_log.counted(log, columns, wiped, rows)
        else:
            note = "not compared: a log of a table without a key that has not all of it says nothing of single rows"
            return LogResult(name, log.count(), note=note)
        if not is_whole:
            compared = compared.filter(F.coalesce("found", F.lit("")) != folded_log.MISSING_IN_LOG)
        if table.multiset and not compared.filter("partly").isEmpty():
            note = "not compared: a DDL came behind changes of a table without a key"
            return LogResult(name, log.count(), note=note)
        return _summed(name, log.count(), compared.persist(), is_whole=is_whole)

    def _at(self, path: str, version: int) -> DataFrame:
        return self.session.read.format("delta").option("versionAsOf", version).load(path)


def _summed(name: str, changes: int, compared: DataFrame, *, is_whole: bool) -> LogResult:
    try:
        row = compared.agg(
            F.count("*").alias("rows"),
            F.count("found").alias("differences"),
            F.coalesce(F.sum(F.col("partly").cast("int")), F.lit(0)).alias("partly"),
        ).collect()[0]
        wrong = compared.filter(F.col("found").isNotNull()).orderBy("key").limit(MOST_EXAMPLES)
        examples = tuple((one.key, one.found) for one in wrong.collect())
    finally:
        compared.unpersist()
    notes = [] if is_whole else ["the log has not all of its table; what it has was compared"]
    notes += [f"{row.partly:,} rows partly: a DDL came behind their change"] if row.partly else []
    return LogResult(name, changes, row.rows, row.differences, examples, "; ".join(notes))
