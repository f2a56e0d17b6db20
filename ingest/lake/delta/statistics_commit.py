"""A commit by Spark's own Delta of what files say of their values, and of nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from ingest.lake.delta.delta_log import Action
from ingest.lake.delta.spark_transaction import SparkTransaction

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
    transaction = SparkTransaction(session, path)
    if transaction.of.readVersion() != of:
        return
    transaction.of.readWholeTable()  # a commit meanwhile may take one of the files out
    transaction.of.txnVersion(marker[0])
    txn = {"appId": marker[0], "version": marker[1], "lastUpdated": None}
    said = [*({"add": add} for add in files), {"txn": txn}]
    operation = transaction.operation("ComputeStats")(transaction.seq())
    try:
        transaction.commit(map(transaction.action, said), operation)
    except Py4JJavaError as failure:
        if "Concurrent" not in str(failure.java_exception.getClass().getName()):
            raise
