"""What Spark has committed to a table, read back: statistics that some reader would miss rows by are put right.

In one commit more, of the same files, as Delta's own ANALYZE TABLE … COMPUTE DELTA STATISTICS makes it. It carries the marker of the
commit that it follows, so a crash between the two is followed by it when the batch is made again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from ingest.lake.delta import file_statistics
from ingest.lake.delta.delta_log import Action
from ingest.lake.delta.schema_commit import delta_log
from ingest.lake.delta.table_handle import TableHandle

_LOOK_BACK = 20
"""Versions among which a commit is looked for that was made before this job began."""


class Written(TableHandle, Protocol):
    """A table that Spark writes."""

    session: SparkSession

    def schema_json(self) -> str:
        """Its columns, as its log has them."""


def since_marker(table: TableHandle, app_id: str, version: int) -> int | None:
    """The version that holds this marker, when it is one of the newest."""
    start = max(0, table.version() - _LOOK_BACK)
    held = ((number, _markers(actions)) for number, actions in table.commits(start))
    return next((number for number, found in held if (app_id, version) in found), None)


def put_right(table: Written, start: int, app_id: str, version: int) -> bool:
    """Look at what was committed from version ``start`` on; True when something was to be put right. Where somebody
    else commits meanwhile nothing is done.
    """
    commits = list(table.commits(start))
    known = file_statistics.columns(table.schema_json())
    files = [
        {**file_statistics.reread(add, known), "dataChange": False}
        for add in _live(actions for _, actions in commits)
        if file_statistics.misread(add, known)
    ]
    if not files:
        return False
    _commit(table.session, table.path, commits[-1][0], files, (app_id, version))
    return True


def _live(commits: Iterable[Sequence[Action]]) -> list[Action]:
    """Entries of files that the last of these commits has left in the table."""
    found = dict[str, Action]()
    for actions in commits:
        for action in actions:
            if "remove" in action:
                found.pop(action["remove"]["path"], None)
        found |= {action["add"]["path"]: action["add"] for action in actions if "add" in action}
    return list(found.values())


def _markers(actions: Iterable[Action]) -> set[tuple[str, int]]:
    found = (action["txn"] for action in actions if "txn" in action)
    return {(txn["appId"], txn["version"]) for txn in found}


def _commit(
    session: SparkSession,
    path: str,
    of: int,
    files: Sequence[Action],
    marker: tuple[str, int],
) -> None:
    jvm: Any = session._jvm
    none = jvm.scala.Option.empty()
    delta = jvm.org.apache.spark.sql.delta
    transaction = delta_log(session, path).startTransaction(none, none)
    if transaction.readVersion() != of:
        return
    transaction.readWholeTable()  # a commit meanwhile may take one of the files out
    transaction.txnVersion(marker[0])
    actions = jvm.java.util.ArrayList()
    from_json = getattr(getattr(delta.actions, "Action$"), "MODULE$").fromJson
    for add in files:
        actions.add(from_json(json.dumps({"add": add}, ensure_ascii=False)))
    txn = {"appId": marker[0], "version": marker[1], "lastUpdated": None}
    actions.add(from_json(json.dumps({"txn": txn})))
    converters = jvm.scala.jdk.javaapi.CollectionConverters
    operation = getattr(delta, "DeltaOperations$ComputeStats")
    nothing = converters.asScala(jvm.java.util.ArrayList()).toSeq()
    try:
        transaction.commit(converters.asScala(actions).toSeq(), operation(nothing))
    except Py4JJavaError as failure:
        if "Concurrent" not in str(failure.java_exception.getClass().getName()):
            raise
