"""A transaction of Delta's own, as Python begins one and gives it actions: for commits of ours that no command of Delta's makes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from typing import Any

from pyspark.sql import SparkSession

from ingest.lake.delta.delta_log import Action

APP_ID = "spark.databricks.delta.write.txnAppId"
VERSION = "spark.databricks.delta.write.txnVersion"
"""Where a commit's identity stands (``tests/capability/test_delta.py``)."""


def delta_log(session: SparkSession, path: str) -> Any:
    """Delta's own object for a table's log, with the session active in this thread.

    A command of Spark's sees to that itself. Delta's objects do not: they read a checkpoint, and take the note of a
    commit, by the session that is active in the thread that asks, and fail in a thread that has none.
    """
    jvm: Any = session._jvm
    sessions = getattr(jvm, "org.apache.spark.sql.classic.SparkSession$")
    getattr(sessions, "MODULE$").setActiveSession(session._jsparkSession)
    return jvm.org.apache.spark.sql.delta.DeltaLog.forTable(session._jsparkSession, path)


class SparkTransaction:
    """On one table, from its newest version on. ``log`` and ``of``: Delta's own objects of the table's log and of the transaction."""

    def __init__(self, session: SparkSession, path: str) -> None:
        jvm: Any = session._jvm
        self._jvm, self._delta, self._conf = jvm, jvm.org.apache.spark.sql.delta, session.conf
        self.none = jvm.scala.Option.empty()
        self.log = delta_log(session, path)
        self.of = self.log.startTransaction(self.none, self.none)

    @property
    def identity(self) -> tuple[str, int]:
        """App id and ``txnVersion`` that stand in the session's configuration."""
        return str(self._conf.get(APP_ID)), int(self._conf.get(VERSION) or 0)

    def marker(self, app_id: str, version: int) -> Any:
        """The action that leaves an identity in the table."""
        now = self._jvm.scala.Option.apply(int(time.time() * 1000))
        return self._delta.actions.SetTransaction(app_id, version, now)

    def action(self, said: Action) -> Any:
        """Delta's own of one as a log has it."""
        from_json = getattr(getattr(self._delta.actions, "Action$"), "MODULE$").fromJson
        return from_json(json.dumps(said, ensure_ascii=False))

    def operation(self, name: str) -> Any:
        """A class, or a companion object (``…$``), of Delta's of what history calls a commit."""
        found = getattr(self._delta, f"DeltaOperations${name}")
        return getattr(found, "MODULE$") if name.endswith("$") else found

    def seq(self, items: Iterable[Any] = ()) -> Any:
        """As Scala has them."""
        held = self._jvm.java.util.ArrayList()
        for one in items:
            held.add(one)
        return self._jvm.scala.jdk.javaapi.CollectionConverters.asScala(held).toSeq()

    def commit(self, actions: Iterable[Any], operation: Any) -> None:
        """Raises what Delta does where others came first."""
        self.of.commit(self.seq(actions), operation)
