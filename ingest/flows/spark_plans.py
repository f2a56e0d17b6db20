"""A look at the plan of a query, which Spark shows to the JVM alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from ingest.lake.delta.commit import sibling

_MOST_FIELDS = "spark.sql.debug.maxToStringFields"
"""By it Spark's text of a plan leaves out what comes behind the 25th of a list."""

DELAY = "spark.watermarkDelayMs"
"""In the metadata of a column: it is the event time of a watermark."""


def each(seq: Any) -> list[Any]:
    """Of a sequence of Scala's."""
    return [seq.apply(at) for at in range(seq.size())]


def nodes(plan: Any) -> Iterator[Any]:
    """All of a tree, from the top."""
    yield plan
    for child in each(plan.children()):
        yield from nodes(child)


def _all_nodes(plan: Any) -> Iterator[Any]:
    """Those of a tree, and of the subqueries in its expressions."""
    for node in nodes(plan):
        yield node
        for query in each(node.subqueries()):
            yield from _all_nodes(query)


def keeps_state(node: Any) -> bool:
    """Whether an operator that may keep state does: of a stream, and of two where it joins them."""
    streaming = [bool(side.isStreaming()) for side in each(node.children())]
    return all(streaming) if str(node.nodeName()) == "Join" else any(streaming)


def analysed(frame: DataFrame) -> Any:
    """The plan of a DataFrame with all names found."""
    return frame._jdf.queryExecution().analyzed()


def whole_text(frame: DataFrame) -> str:
    """Of its plan, which leaves out nothing. Only here: Spark keeps the texts of a thousand plans, and all of each would fill its heap."""
    session = frame.sparkSession
    jvm: Any = session._jvm
    jvm.org.apache.spark.sql.SparkSession.setActiveSession(session._jsparkSession)
    before = session.conf.get(_MOST_FIELDS)
    session.conf.set(_MOST_FIELDS, "1000000")
    try:
        return str(analysed(frame).toString())
    finally:
        session.conf.set(_MOST_FIELDS, before or "25")


def of_batch(session: SparkSession, query_name: str) -> Any:
    """The execution of the batch that a query is in. To be asked in its ``foreachBatch``; ``session``: which it was started in."""
    active: Any = session._jsparkSession.streams().active()
    return next(one.streamingQuery().lastExecution() for one in active if one.name() == query_name)


def versions_read(execution: Any) -> dict[str, int]:
    """By path of a Delta table that a batch reads as a table, and not as a stream: which version."""
    found = {}
    for node in _all_nodes(execution.optimizedPlan()):
        if str(node.nodeName()).startswith("LogicalRelation") and not node.isStreaming():
            place = node.relation().location()
            if str(place.getClass().getSimpleName()) == "PreparedDeltaFileIndex":
                found[str(place.path().toString())] = int(place.preparedScan().version())
    return found


def batch_session(session: SparkSession) -> SparkSession:
    """One in which parts of a stream's batch can be read (:func:`as_frame`): Spark would refuse them as a stream, which they are no more."""
    other = sibling(session)
    other.conf.set("spark.sql.streaming.unsupportedOperationCheck", "false")
    return other


def as_frame(session: SparkSession, plan: Any) -> DataFrame:
    """What a part of a batch's plan brings, with its inputs as that batch has them. ``session``: of :func:`batch_session`."""
    jvm: Any = session._jvm
    frame = jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, plan)
    return DataFrame(frame, session)


def plain(columns: StructType) -> StructType:
    """Without what Spark notes beside columns."""
    return StructType([StructField(one.name, one.dataType, one.nullable) for one in columns])


def rows_alone(frame: DataFrame) -> DataFrame:
    """The same rows, behind a plan that says nothing of where they come from: not that it was a stream; not which column was its event
    time, which would get into a table's columns; and not that they are kept, which Delta's MERGE refuses to be shown.
    """
    session: Any = frame.sparkSession
    schema = session._jsparkSession.parseDataType(plain(frame.schema).json())
    rows = frame._jdf.queryExecution().toRdd()
    found = session._jsparkSession.internalCreateDataFrame(rows, schema, False)
    return DataFrame(found, frame.sparkSession)
