"""`ingest audit --change-logs`: is each change log, folded, its table.

Both are read as one batch of the manifest has left them, so nothing has to stand still. What cannot be compared is said, table by table; the trouble of one
keeps no other from being looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ingest.changes import folded_log
from ingest.config.pipeline_file import Pipeline
from ingest.lake.delta import change_log_table, other_writers
from ingest.lake.delta.delta_rs_table import within_reach
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.model.manifest import Entry, TableState
from ingest.model.names import RESERVED_COLUMN
from ingest.model.topics import TableId
from ingest.observe.log_verdict import NOT_COMPARED, LogResult
from ingest.observe.verdict import MOST_EXAMPLES
from ingest.schema.change_log import BEGINS_PROPERTY, LogColumns
from ingest.targets.target import live_rows

UNREAD = (PySparkException, Py4JJavaError, KeyError, ValueError)
"""Of a table or log whose files are gone, or whose columns a batch in hand has changed already."""


@dataclass(frozen=True)
class LogAudit:
    """Compares one pipeline's change logs, each with its table."""

    pipeline: Pipeline
    session: SparkSession

    def execute(self) -> list[LogResult]:
        """One result for each log that there is to be; a few Spark jobs each, over the whole log."""
        entry = Ledger(self.pipeline.lake.path).last()
        if entry is None:
            return []
        asked = [
            (name, state)
            for name, state in sorted(entry.tables.items())
            if state.log or self.pipeline.logs(TableId.parse(name))
        ]
        return [self._looked_at(name, state, entry) for name, state in asked]

    def _looked_at(self, name: str, state: TableState, entry: Entry) -> LogResult:
        if why := self._unfit(name, state, entry):
            return LogResult(name, note=f"{NOT_COMPARED}{why}")
        try:
            return self._result(name, state)
        except UNREAD as failure:
            said = " ".join(str(failure).split())[:200]
            why = f"it cannot be read as batch {entry.batch_id} left it, or is being changed; audit again once the job has come to rest ({said})"
            return LogResult(name, note=f"{NOT_COMPARED}{why}")

    def _unfit(self, name: str, state: TableState, entry: Entry) -> str:
        """Why a log says nothing of its table, whatever is in both; empty where it does."""
        table = TableId.parse(name)
        topic = self.pipeline.topic(table)
        if state.log is None:
            return "nothing is published of its log yet"
        if self.pipeline.rules(table).ignores & {"truncate", "drop_table"}:
            return "the pipeline file has its rows outlive a TRUNCATE or DROP, which its log tells"
        if any(end > entry.ends.get((topic, partition), 0) for partition, end in state.log.ends):
            return "its table is being read again, and its log is ahead"
        return ""

    def _result(self, name: str, state: TableState) -> LogResult:
        assert state.log is not None
        held, table = (
            SparkTable(self.session, state.log.path),
            SparkTable(self.session, state.path).describe(),
        )
        if table is None:
            return LogResult(name, note=f"{NOT_COMPARED}its table is gone")
        keyed = not table.multiset
        if self.pipeline.target(TableId.parse(name), keyed=keyed).outlives:
            return LogResult(
                name, note=f"{NOT_COMPARED}its table keeps rows that the source has not"
            )
        columns = change_log_table.columns_of(held, None)
        log = self._at(state.log.path, state.log.version)
        rows = self._at(state.path, state.version).filter(live_rows(table.target))
        rows, said = rows.drop(RESERVED_COLUMN), folded_log.told(log)
        is_whole = said.begin is None and held.property_of(BEGINS_PROPERTY) is None
        notes = _only_one_has(columns, rows)
        if keyed:
            found = folded_log.keyed(log, columns, said, rows, table.key)
            # A row that such a log does not name says nothing.
            silent = F.coalesce("found", F.lit("")) == folded_log.MISSING_IN_LOG
            found = found.withColumn("silent", silent & F.lit(not is_whole))
            if not is_whole:
                notes.append("the log has not all of its table")
        elif is_whole and said.key is None:
            found = folded_log.counted(log, columns, said, rows).withColumn("silent", F.lit(False))
            if not found.filter("partly").isEmpty():
                return self._without_key(name, log, "a DDL came behind changes")
        else:
            why = "its log has not all of it" if not is_whole else "a DDL may have changed its key"
            return self._without_key(name, log, why)
        return _summed(name, log.count(), found.persist(), notes)

    def _without_key(self, name: str, log: DataFrame, why: str) -> LogResult:
        return LogResult(name, log.count(), note=f"{NOT_COMPARED}{why}, and its table has no key")

    def _at(self, path: str, version: int) -> DataFrame:
        """As it is published; as it is now, where there was only upkeep since, which removes the files of before."""
        table = SparkTable(self.session, path)
        happened = other_writers.since(
            within_reach(table, self.pipeline.lake.path) or table, version
        )
        read = self.session.read.format("delta")
        if happened.markers != {}:
            read = read.option("versionAsOf", version)
        return read.load(path)


def _only_one_has(columns: LogColumns, rows: DataFrame) -> list[str]:
    """Columns that are not compared, in words."""
    both = {name.lower() for name in folded_log.compared(columns, rows)}
    alone = [name for name in (*columns.today, *rows.columns) if name.lower() not in both]
    return [f"columns that one side alone has are left out: {', '.join(alone)}"] if alone else []


def _summed(name: str, changes: int, compared: DataFrame, notes: list[str]) -> LogResult:
    try:
        marks = ("partly", "passed", "silent")
        number = {one: F.coalesce(F.sum(F.col(one).cast("int")), F.lit(0)) for one in marks}
        differs = F.col("found").isNotNull() & ~F.col("silent")
        row = compared.agg(
            F.count("*").alias("rows"),
            F.count(F.when(differs, True)).alias("differences"),
            *[many.alias(one) for one, many in number.items()],
        ).collect()[0]
        wrong = compared.filter(differs).orderBy("key").limit(MOST_EXAMPLES)
        examples = tuple((one.key, one.found) for one in wrong.collect())
    finally:
        compared.unpersist()
    if row.partly:
        notes = [*notes, f"{row.partly:,} rows compared in part, as a DDL came behind their change"]
    done = row.rows - row.passed - row.silent
    nothing = row.rows and not done
    for many, why in (
        (
            row.passed,
            "what came of them since may be missing in the log, or a DDL may have changed their key",
        ),
        (row.silent, "the log does not name them"),
    ):
        if many:
            notes = [*notes, f"{many:,} rows{'' if nothing else ' not compared'}: {why}"]
    note = (NOT_COMPARED if nothing else "") + "; ".join(notes)
    return LogResult(name, changes, done, row.differences, examples, note)
