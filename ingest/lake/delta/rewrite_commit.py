"""A MERGE of few changes by Spark, without Delta's own: the files that change are written anew, each from its own rows (``rewritten_rows``).

Delta's transaction reads the files, writes new ones and commits: who else came meanwhile, a successor's fence among them, is a conflict as in any
MERGE. What entries of new files say of their values is put right before the commit, so that no second one has to.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
from delta.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
)
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ingest.changes import rewritten_rows
from ingest.changes.arrow_frames import frame_of
from ingest.changes.kept_frames import free
from ingest.lake.delta import written_files
from ingest.lake.delta.delta_log import Action
from ingest.lake.delta.delta_rs_table import DeltaRsTable
from ingest.lake.delta.delta_snapshot import LiveFile, TableState
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.delta.spark_transaction import SparkTransaction
from ingest.targets.target import MergePlan

FEATURES = frozenset(
    {
        "appendOnly",
        "columnMapping",
        "deletionVectors",
        "invariants",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
    }
)
"""Of a table, that were seen to be kept (test_rewrite_commit): Delta's MERGE does more for others, as for generated columns."""

_OTHERS_FILES = (
    ConcurrentAppendException,
    ConcurrentDeleteReadException,
    ConcurrentDeleteDeleteException,
)
"""What Delta raises where others have put files in meanwhile, or taken some out, as their OPTIMIZE does: this transaction reads all of a table."""

_SOURCE_ROWS = "operationNumSourceRows"
"""Delta's metric, without which it refuses the commit of a MERGE."""

_CHANGE_FEED = "delta.enableChangeDataFeed"

MOST_FILES = 1_000
"""That are handed to Delta one by one, at about 0.2 ms each; Spark finds those of a larger table in a job."""

FILE = 128 * 2**20
"""Bytes of a file that a task writes, as Spark reads them by default (``spark.sql.files.maxPartitionBytes``)."""


def fits(table: DeltaRsTable, files: Sequence[LiveFile]) -> bool:
    """Whether a MERGE into these files of a table may be made so. Pure."""
    state = table.state
    plain = table.features() <= FEATURES and state.configuration.get(_CHANGE_FEED) != "true"
    # An entry with another place than below the table's folder, or with a name that is encoded, is not ours.
    own = all("%" not in one.path and ":" not in one.path for one in files)
    return plain and own and len(files) <= MOST_FILES


def merge(
    table: SparkTable,
    source: DataFrame,
    plan: MergePlan,
    key: Sequence[str],
    held: TableState,
    files: Sequence[LiveFile],
) -> bool:
    """One commit, under the identity that stands in the table's session. ``source``: small, of the session, no two rows with one ``key``;
    ``held``: the table as its log has it; ``files``: those of it in which a row may match. False, and nothing is
    done, where the newest version is another one, or somebody commits meanwhile: Delta's own MERGE is for such a table.
    """
    transaction = SparkTransaction(table.session, table.path)
    app, version = transaction.identity
    if transaction.of.readVersion() != held.version:
        return False
    # So Delta knows that we rely on it, and a successor's fence is a conflict. To be asked what it is Delta would compute the table's state.
    transaction.of.readTxn().addOne(app)
    if held.markers.get(app, -1) >= version:
        return True
    transaction.of.readWholeTable()
    rewrite = _Rewrite(table, transaction, plan, held)
    numbered = rewritten_rows.numbered(source, key)
    try:
        actions = rewrite.write(numbered, files, held.physical(key[0]))
    finally:
        free(numbered)
    if actions is None:
        return False
    _tell(table.session, transaction.of, rewrite.counts)
    nothing = transaction.seq()
    operation = transaction.operation("Merge$").apply(transaction.none, nothing, nothing, nothing)
    try:
        transaction.commit([*actions, transaction.marker(app, version)], operation)
    except _OTHERS_FILES:
        return False
    return True


class _Rewrite:
    """What one transaction writes, and how many rows of each kind that is (``counts``, as Delta's history names them)."""

    def __init__(
        self, table: SparkTable, transaction: SparkTransaction, plan: MergePlan, held: TableState
    ) -> None:
        self._session, self._transaction, self._plan = table.session, transaction, plan
        self._path, self._held = table.path, held
        self._table = StructType.fromJson(json.loads(held.metadata["schemaString"]))
        self.counts = dict[str, int]()

    def write(self, source: DataFrame, files: Sequence[LiveFile], column: str) -> list[Any] | None:
        """Delta's actions that take files out and put files in; None where Spark calls a file otherwise than the log does."""
        plan, table = self._plan, self._table
        entries = {one.path: self._entry(one) for one in files}
        held = self._frame([*entries.values()])
        both = rewritten_rows.matches(held, source, plan).toArrow()
        found = both.filter(pc.is_valid(both["file"]))
        self.counts[_SOURCE_ROWS] = both.num_rows - found.num_rows
        touched = _touched(files, found)
        if touched is None:
            return None
        numbers = frame_of(found.select([rewritten_rows.NUMBER]), self._session)
        rows = rewritten_rows.added(source, numbers, plan, table)
        last = takes_new(touched, column)
        if last is not None:
            rows = self._kept([last], source, entries).union(rows)
        # Not the others, too: of two frames in one partition each Spark's union makes a single one.
        rows = rows.coalesce(1)
        if others := [one for one in touched if one is not last]:
            rows = self._kept(others, source, entries).union(rows)
        added = self._written(rows, len(touched))
        if added is None:
            return None
        self._count(found, touched, added)
        removed = [entries[one.path].remove() for one in touched]
        return [*removed, *map(self._transaction.action, added)]

    def _kept(
        self, files: Sequence[LiveFile], source: DataFrame, entries: Mapping[str, Any]
    ) -> DataFrame:
        """What becomes of the rows of these files: in tasks as Spark reads them, which keeps large files apart and puts small ones together."""
        held = self._frame([entries[one.path] for one in files])
        return rewritten_rows.kept(held, source, self._plan, self._table)

    def _frame(self, entries: Sequence[Any]) -> DataFrame:
        begun = self._transaction
        files, snapshot = begun.seq(entries), begun.of.snapshot()
        return DataFrame(
            begun.log.createDataFrame(snapshot, files, False, begun.none), self._session
        )

    def _entry(self, file: LiveFile) -> Any:
        whole = {**file.add, "partitionValues": {}, "dataChange": True}
        return self._transaction.action({"add": whole})

    def _written(self, rows: DataFrame, touched: int) -> list[Action] | None:
        """Rows of no file are of the source's session, whose settings are another's."""
        most = touched or written_files.FEW + 1
        return written_files.write(
            self._session, self._path, self._transaction, rows, self._held, most
        )

    def _count(self, found: pa.Table, touched: Sequence[LiveFile], added: Sequence[Action]) -> None:
        deleted, updated = (pc.sum(found[name]).as_py() or 0 for name in ("deleted", "updated"))
        before, after = _rows(one.add for one in touched), _rows(one["add"] for one in added)
        self.counts["numTargetFilesRemoved"] = len(touched)
        self.counts["numTargetFilesAdded"] = len(added)
        self.counts["numTargetRowsDeleted"] = deleted
        self.counts["numTargetRowsUpdated"] = updated
        if before is not None and after is not None:
            self.counts["numTargetRowsCopied"] = before - deleted - updated
            self.counts["numTargetRowsInserted"] = after - (before - deleted)


def takes_new(touched: Sequence[LiveFile], column: str) -> LiveFile | None:
    """Which of the files that are written anew new rows go to, so that they make no file of their own: that of the greatest keys, as a new key
    mostly is greater than all before, and where keys are no whole numbers the smallest. None where all are large. Pure.
    """
    small = [one for one in touched if one.size < FILE]
    tops = {one.path: one.range(column)[1] for one in small}
    numbers = all(isinstance(top, int) for top in tops.values())
    return max(small, key=lambda one: (tops[one.path] if numbers else 0, -one.size), default=None)


def _touched(files: Sequence[LiveFile], found: pa.Table) -> list[LiveFile] | None:
    """Files in which a row is deleted or updated. A name has a UUID; were two of one name, both are written anew. None where one is of another
    name than all of these: a change of its rows would be lost without a word.
    """
    changed = found.filter(pc.or_(found["deleted"], found["updated"]))
    names = {uri.rpartition("/")[2] for uri in changed["file"].unique().to_pylist()}
    touched = [one for one in files if one.path.rpartition("/")[2] in names]
    return touched if names <= {one.path.rpartition("/")[2] for one in touched} else None


def _rows(entries: Iterable[Action]) -> int | None:
    """How many rows files have that count; None where an entry does not say."""
    total = 0
    for add in entries:
        rows = json.loads(add.get("stats") or "{}").get("numRecords")
        if rows is None:
            return None
        total += rows - (add.get("deletionVector") or {}).get("cardinality", 0)
    return total


def _tell(session: SparkSession, transaction: Any, counts: Mapping[str, int]) -> None:
    """What Delta's history says of the commit."""
    jvm: Any = session._jvm
    of_spark = jvm.org.apache.spark.sql.execution.metric.SQLMetrics
    metrics = jvm.java.util.HashMap()
    for name, count in counts.items():
        metric = of_spark.createMetric(cast("Any", session)._jsparkSession.sparkContext(), name)
        metric.set(count)
        metrics.put(name, metric)
    told = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(metrics)
    transaction.registerSQLMetrics(session._jsparkSession, told)
