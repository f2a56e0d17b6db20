"""Counting what came late after all: windows that it belongs to are computed anew from all of the inputs, and merged into the tables.

A window behind the watermark is closed: whatever still comes for it is late again. So it may be computed from all that the inputs
hold now, and as often as one likes.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ingest.config.flow_settings import FlowSink
from ingest.flows import spark_plans
from ingest.flows.flow_function import load
from ingest.flows.flow_query import FlowQuery
from ingest.flows.sinks import merge
from ingest.lake.delta.commit import Committer, Identity
from ingest.lake.delta.spark_table import SparkTable
from ingest.model.errors import Exit, IngestError
from ingest.model.names import FLOW_PROPERTY, Role, app_id, join

WINDOW = "window"
"""The column of a result by which its rows are found that a late event belongs to."""


@dataclass(frozen=True)
class Applied:
    """``windows``: computed anew; ``rows``: of the result, merged into each table."""

    windows: int
    rows: int


def late_rows(flow: FlowQuery) -> DataFrame | None:
    """All that came late (``late_pairs.LATE``). None where nothing ever did."""
    table = SparkTable(flow.session, flow.folder.late)
    return table.frame() if table.exists() else None


def apply(flow: FlowQuery) -> Applied:
    """Raises :class:`IngestError` where the flow's result does not say which of its rows a late event belongs to, or an input no
    longer holds all that it had.
    """
    late = late_rows(flow)
    if late is None:
        return Applied(0, 0)
    tables = [one for one in flow.flow.sinks if one.delta]
    windows = late.filter(F.col(WINDOW).isNotNull()).select(WINDOW).distinct()
    many = windows.count()
    result = flow.result(load(flow.folder.name, flow.flow), streams=False)
    _refuse_unfit(flow, result, tables)
    anew = result.join(F.broadcast(windows), WINDOW, "left_semi").select(*result.columns).persist()
    try:
        rows = anew.count()
        version = SparkTable(flow.session, flow.folder.late).version()
        for sink in tables:
            _merge(flow, sink, spark_plans.rows_alone(anew), version)
    finally:
        anew.unpersist()
    return Applied(many, rows)


def _merge(flow: FlowQuery, sink: FlowSink, rows: DataFrame, version: int) -> None:
    """Under an identity of its own, by the version of the late table that it is of."""
    pipeline, name = flow.folder.pipeline, flow.folder.name
    table = SparkTable(flow.session, join(pipeline.lake.path, sink.delta or ""))
    if not table.exists() or table.property_of(FLOW_PROPERTY) != f"{pipeline.name}/{name}":
        return
    record = flow.folder.record()
    assert record is not None
    app = app_id(pipeline.name, f"{record.checkpoint_id}-late", f"{name}/{sink.name}", Role.FLOW)
    committer: Committer = flow.committer
    committer.once(table, Identity(app, version + 1), lambda: merge(table, sink.keys, rows))


def _refuse_unfit(flow: FlowQuery, result: DataFrame, tables: list[FlowSink]) -> None:
    name = flow.folder.name
    if WINDOW not in result.columns or "session_window" in result.columns:
        raise _cannot(name, "its result has no column `window`, by which its rows would be found")
    for sink in tables:
        if not sink.keys:
            raise _cannot(name, f"its table {sink.delta} has no `keys`, by which rows are replaced")
    for one, given in flow.flow.inputs.items():
        if given.kafka:
            raise _cannot(
                name, f"its input {one!r} is a topic, which may not hold its first records any more"
            )


def _cannot(name: str, why: str) -> IngestError:
    return IngestError(
        "E-FLOW-LATE",
        f"What came late for the flow {name!r} cannot be applied: {why}.",
        means="Its tables stay as they are, and what came late stays where it is kept.",
        remedy="read it by `ingest flow late` and count it elsewhere; or begin the flow again with a longer watermark.",
        exit_code=Exit.REFUSED,
    )
