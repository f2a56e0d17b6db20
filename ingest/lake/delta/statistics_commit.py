"""A commit by Spark's own Delta of what files say of their values, and of nothing else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from ingest.lake.delta.delta_log import Action
from ingest.lake.delta.schema_commit import delta_log

OPERATION = "COMPUTE STATS"
"""What Delta's history calls such a commit."""


def commit(
    session: SparkSession,
    path: str,
    of: int,
    files: Sequence[Action],
    marker: tuple[str, int],
) -> None:
    """See ``read_back.Written``."""
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
