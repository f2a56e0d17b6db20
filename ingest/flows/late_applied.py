"""Counting what came late after all: windows that it belongs to are computed anew from all of the inputs, and merged into the tables.

A window behind the watermark is closed: whatever still comes for it is late again. So it may be computed from all that the inputs
hold now, and as often as one likes. Rows of such a window that are not among the new ones go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ingest.config.flow_inputs import FlowInput
from ingest.config.flow_sinks import FlowSink
from ingest.flows import inputs, spark_plans, totals_query
from ingest.flows.flow_folder import FlowFolder
from ingest.flows.flow_function import load
from ingest.flows.flow_query import FlowQuery, refused
from ingest.flows.sinks import Sinks, merge
from ingest.lake.delta.commit import Identity
from ingest.lake.delta.spark_table import SparkTable
from ingest.model.errors import Exit, IngestError
from ingest.model.names import Role, quoted
from ingest.schema.change_log import BEGINS_PROPERTY

WINDOW = "window"
"""The column of a result by which its rows are found that a late event belongs to."""


@dataclass(frozen=True)
class Applied:
    """``windows``: computed anew; ``rows``: of the result, merged into each table."""

    windows: int
    rows: int


def late_rows(session: SparkSession, folder: FlowFolder) -> DataFrame | None:
    """All that came late (``late_pairs.LATE``) since a flow has begun. None where nothing ever did."""
    table, record = SparkTable(session, folder.late), folder.record()
    if record is None or not table.exists():
        return None
    return table.frame().filter(F.col("checkpoint") == record.checkpoint_id)


def apply(flow: FlowQuery) -> Applied:
    """Raises :class:`IngestError` where the flow's result does not say which of its rows a late event belongs to, or an input does not
    hold all that the flow has read, from its beginning.
    """
    late, record = late_rows(flow.session, flow.folder), flow.folder.record()
    if late is None or record is None:
        return Applied(0, 0)
    function = load(flow.folder.name, flow.flow)
    _, now = flow.made(function)
    if cannot := flow.goes_on(record, now).cannot:
        raise refused(flow.folder.name, cannot)
    folder = flow.folder
    sinks = Sinks(folder.pipeline, folder.name, flow.flow.mode, record, flow.committer)
    tables = {
        one: SparkTable(flow.session, sinks.path(one)) for one in flow.flow.sinks if one.delta
    }
    windows = late.filter(F.col(WINDOW).isNotNull()).select(WINDOW).distinct()
    many = windows.count()
    result, _ = flow.made(function, streams=False)
    _refuse_unfit(flow, result, tables)
    if not many:
        return Applied(0, 0)
    anew = result.join(F.broadcast(windows), WINDOW, "left_semi").select(*result.columns).persist()
    try:
        rows, version = anew.count(), SparkTable(flow.session, flow.folder.late).version()
        rows_alone = spark_plans.rows_alone(anew)
        done = [
            _merge(sinks, one, table, rows_alone, windows, version) for one, table in tables.items()
        ]
    finally:
        anew.unpersist()
    return Applied(many, rows) if any(done) else Applied(0, 0)


def _merge(
    sinks: Sinks,
    sink: FlowSink,
    table: SparkTable,
    rows: DataFrame,
    windows: DataFrame,
    version: int,
) -> bool:
    """Under an identity of its own, by the version of the late table that it is of. ``rows``: all that these windows have now. Returns whether it
    was done now.
    """
    identity = Identity(sinks.app_id(sink.name, Role.LATE), version + 1)
    # A table that is joined may have changed since: a window's events may be of another key now, and what stands under the old one is of the same.
    held = totals_query.of_groups(table.frame(), windows, [WINDOW])
    keys = held.select(*map(quoted, sink.keys)).distinct()
    now = totals_query.with_gone(rows, keys, sink.keys).persist()
    try:
        none = not now.count()  # before the table changes
        found = spark_plans.rows_alone(now)
        return sinks.committer.once(
            table, identity, lambda: merge(table, sink.keys, found), may_do_nothing=none
        )
    finally:
        now.unpersist()


def _refuse_unfit(
    flow: FlowQuery, result: DataFrame, tables: Mapping[FlowSink, SparkTable]
) -> None:
    name = flow.folder.name
    if flow.flow.totals:
        raise _cannot(name, "nothing is late for `totals`")
    if WINDOW not in result.columns or "session_window" in result.columns:
        raise _cannot(name, "its result has no column `window`, by which its rows would be found")
    for sink, table in tables.items():
        if not sink.keys:
            raise _cannot(name, f"its table {sink.delta} has no `keys`, by which rows are replaced")
        there = {one.lower() for one in table.frame().columns}
        if lacking := [one for one in (WINDOW, *sink.keys) if one.lower() not in there]:
            raise _cannot(name, f"its table {sink.delta} has no column `{lacking[0]}` yet")
    if others := [sink.place for sink in flow.flow.sinks if sink.mysql or sink.redis]:
        raise _cannot(
            name,
            f"it would not come to {', '.join(others)}, which then would differ from its tables",
        )
    for one, given in flow.flow.inputs.items():
        if given.kafka:
            raise _cannot(
                name, f"its input {one!r} is a topic, which may not hold its first records any more"
            )
        if given.logged and _has_lost(flow, given):
            raise _cannot(
                name,
                f"its input {one!r} is a change log that has lost old days (`change_log_days`)",
            )
        if given.starting == "latest":
            raise _cannot(
                name, f"its input {one!r} was not read from its beginning (`starting: latest`)"
            )


def _has_lost(flow: FlowQuery, given: FlowInput) -> bool:
    """Of a change log, or of one that is read as a history."""
    log = SparkTable(flow.session, inputs.log_path(flow.folder.pipeline, given))
    return log.property_of(BEGINS_PROPERTY) is not None


def _cannot(name: str, why: str) -> IngestError:
    return IngestError(
        "E-FLOW-LATE",
        f"What came late for the flow {name!r} cannot be applied: {why}.",
        means="Its tables stay as they are, and what came late stays where it is kept.",
        remedy="read it by `ingest flow late` and count it elsewhere; or begin the flow again with a longer watermark.",
        exit_code=Exit.REFUSED,
    )
