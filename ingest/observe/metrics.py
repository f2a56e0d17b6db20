"""Every metric that a run shows: name, meaning, and where its value comes from. Pure.

A metric is added here and in docs/metrics.md, and nowhere else; a test holds that both name the same. Labels are names
of tables, stages and outcomes: never a row's value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from ingest import __version__
from ingest.flows.flow_record import FlowStatus
from ingest.model import restart_reasons
from ingest.model.manifest import TableState
from ingest.model.topics import TableId, captured
from ingest.observe.caught_up import Progress
from ingest.observe.totals import Totals

Values = Mapping[tuple[str, ...], float]
"""By the values of a metric's labels."""


@dataclass(frozen=True)
class Facts:
    """All that metrics are drawn from. ``patterns``: the pipeline file's ``source.tables``; ``now``, ``started``: epoch
    seconds; ``memory``: resident bytes by process; ``term``: of the lease.
    """

    pipeline: str
    totals: Totals
    progress: Progress
    now: float
    started: float
    term: int = 0
    patterns: tuple[str, ...] = ("*.*",)
    memory: Mapping[str, int] = field(default_factory=dict)
    looks: Mapping[str, int] = field(default_factory=dict)
    flows: Mapping[str, FlowStatus] = field(default_factory=dict)

    @property
    def counted(self) -> Progress:
        """What the newest look has counted, while it is new."""
        return self.progress.counted(self.now)

    @property
    def open_gaps(self) -> int | None:
        """Gaps of tables that the pipeline file still takes; None while the manifest is not read."""
        if self.totals.newest is None:
            return None
        return sum(gap.is_open and self._is_taken(gap.of) for gap in self.totals.newest.gaps)

    def taken(self, states: Callable[[TableState], object]) -> int | None:
        """How many of the tables that the pipeline file still takes are in such a state; None while the manifest is not read."""
        if self.totals.newest is None:
            return None
        named = self.totals.newest.tables.items()
        return sum(bool(states(one)) and self._is_taken(TableId.parse(n)) for n, one in named)

    def _is_taken(self, table: TableId | None) -> bool:
        """What is known by its topic alone is missing, whatever the pipeline file takes."""
        return table is None or bool(captured([table], self.patterns))


@dataclass(frozen=True)
class Metric:
    """``read``: its values now; one that is not known is left out, and never guessed."""

    name: str
    kind: Literal["counter", "gauge"]
    meaning: str
    read: Callable[[Facts], Values]
    labels: tuple[str, ...] = ()


def _one(value: float | None) -> Values:
    return {} if value is None else {(): value}


def _each(values: Mapping[str, float]) -> Values:
    return {(name,): value for name, value in values.items()}


def _of_tables(facts: Facts, *, lag: bool) -> Values:
    moments = {name: one.caught_up for name, one in facts.progress.tables.items()}
    known = {name: at for name, at in moments.items() if at is not None}
    return _each({name: max(0.0, facts.now - at) if lag else at for name, at in known.items()})


def _since(facts: Facts, moment: float | None) -> Values:
    return _one(None if moment is None else max(0.0, facts.now - moment))


def _source_time(facts: Facts) -> Values:
    newest = facts.totals.newest
    return _one(newest.source_time.timestamp() if newest and newest.source_time else None)


def _published_at(facts: Facts) -> Values:
    newest = facts.totals.newest
    return _one(newest.started_at.timestamp() + newest.seconds if newest else None)


def _of_newest(field_name: str) -> Callable[[Facts], Values]:
    return lambda facts: _one(getattr(facts.totals.newest, field_name, None))


def _of_flows(facts: Facts, value: Callable[[FlowStatus], float]) -> Values:
    return _each({name: value(one) for name, one in facts.flows.items()})


def _of_operators(facts: Facts, what: Literal["rows", "bytes"]) -> Values:
    return {
        (name, f"{at}:{one['operator']}"): one[what]
        for name, flow in facts.flows.items()
        for at, one in enumerate(flow.operators)
    }


METRICS: tuple[Metric, ...] = (
    Metric(
        "ingest_info",
        "gauge",
        "1; which pipeline, and by which version of ingest",
        lambda facts: {(facts.pipeline, __version__): 1},
        ("pipeline", "version"),
    ),
    Metric(
        "ingest_run_started_timestamp_seconds",
        "gauge",
        "when this run took the lease; counters begin at 0 then",
        lambda facts: _one(facts.started),
    ),
    Metric("ingest_lease_term", "gauge", "the run's term of the lease", lambda f: _one(f.term)),
    Metric(
        "ingest_changes_total",
        "counter",
        "changes by outcome: `taken` (fresh; those that went to quarantine included), `quarantined`, `resent` (applied "
        "before, recognised), `remembered` (of those, known to Spark's state), `late` (Spark's watermark would have dropped them; of those taken)",
        lambda facts: _each(facts.totals.changes),
        ("outcome",),
    ),
    Metric(
        "ingest_changes_by_reader_total",
        "counter",
        "changes taken, by who has read them: `driver` (Arrow) or `spark`",
        lambda facts: _each(facts.totals.by_reader),
        ("reader",),
    ),
    Metric(
        "ingest_table_changes_total",
        "counter",
        "changes taken, by table",
        lambda facts: _each(facts.totals.by_table),
        ("table",),
    ),
    Metric(
        "ingest_table_commits_total",
        "counter",
        "versions that a table has gained, by changes, DDL and upkeep",
        lambda facts: _each(facts.totals.versions),
        ("table",),
    ),
    Metric(
        "ingest_batches_total",
        "counter",
        "rows of the manifest by kind: `batch`, `cleanup`, `rewind`, `replay`, `drop`, `fill`",
        lambda facts: _each(facts.totals.batches),
        ("kind",),
    ),
    Metric(
        "ingest_batch_seconds_total",
        "counter",
        "seconds spent on batches, up to their row of the manifest",
        lambda facts: _one(facts.totals.seconds),
    ),
    Metric(
        "ingest_stage_seconds_total",
        "counter",
        "the same, by stage",
        lambda facts: _each(facts.totals.stages),
        ("stage",),
    ),
    Metric("ingest_batch_id", "gauge", "number of the newest batch", _of_newest("batch_id")),
    Metric("ingest_batch_changes", "gauge", "changes of the newest batch", _of_newest("changes")),
    Metric(
        "ingest_batch_published_timestamp_seconds",
        "gauge",
        "when the newest batch was published",
        _published_at,
    ),
    Metric(
        "ingest_source_timestamp_seconds",
        "gauge",
        "when the newest change that was applied was committed in MySQL; no measure of lag, as it grows old on a "
        "quiet source",
        _source_time,
    ),
    Metric(
        "ingest_caught_up_timestamp_seconds",
        "gauge",
        "the moment up to which the lake is proven to hold everything that MySQL had committed",
        lambda facts: _one(facts.progress.caught_up),
    ),
    Metric(
        "ingest_lag_seconds",
        "gauge",
        "how long ago that moment is",
        lambda facts: _since(facts, facts.progress.caught_up),
    ),
    Metric(
        "ingest_table_caught_up_timestamp_seconds",
        "gauge",
        "the same moment of one table",
        lambda facts: _of_tables(facts, lag=False),
        ("table",),
    ),
    Metric(
        "ingest_table_lag_seconds",
        "gauge",
        "how long ago that moment is",
        lambda facts: _of_tables(facts, lag=True),
        ("table",),
    ),
    Metric(
        "ingest_table_lag_records",
        "gauge",
        "records in Kafka that are not applied, transaction markers included",
        lambda facts: _each(
            {n: one.records for n, one in facts.counted.tables.items() if one.records is not None}
        ),
        ("table",),
    ),
    Metric(
        "ingest_transactions_not_in_kafka",
        "gauge",
        "MySQL's transactions that Connect is not known to have delivered; absent during a snapshot and without GTIDs",
        lambda facts: _one(facts.counted.undelivered),
    ),
    Metric(
        "ingest_lag_looked_timestamp_seconds",
        "gauge",
        "when MySQL, Connect, Kafka and the manifest last answered, all of them",
        lambda facts: _one(facts.progress.looked_at),
    ),
    Metric(
        "ingest_lag_looks_total",
        "counter",
        "how often they were asked: `answered`, or `failed` when one of them was not to be had",
        lambda facts: _each(facts.looks),
        ("outcome",),
    ),
    Metric(
        "ingest_gaps_open",
        "gauge",
        "gaps whose table was not taken again yet",
        lambda facts: _one(facts.open_gaps),
    ),
    Metric(
        "ingest_gaps_total",
        "counter",
        "gaps `opened` and `closed`",
        lambda facts: _each(facts.totals.gaps),
        ("what",),
    ),
    Metric(
        "ingest_tables_paused",
        "gauge",
        "tables that stand before a DDL, by policy",
        lambda facts: _one(facts.taken(lambda state: state.paused)),
    ),
    Metric(
        "ingest_tables_stopped",
        "gauge",
        "tables that stand still, as a part of a batch could not be applied",
        lambda facts: _one(facts.taken(lambda state: state.stopped)),
    ),
    Metric(
        "ingest_tables_left_out",
        "gauge",
        "tables that the connector leaves out until the next run, as its task fails at a change of theirs",
        lambda facts: _one(facts.counted.left_out),
    ),
    Metric(
        "ingest_quarantine_waiting",
        "gauge",
        "changes that wait in quarantine, whichever run set them aside",
        lambda facts: _one(facts.counted.quarantined),
    ),
    Metric(
        "ingest_restarts_total",
        "counter",
        f"how often the stream began anew, by reason: {', '.join(f'`{one.code}`' for one in restart_reasons.RESTARTS)}, "
        "or an error's code",
        lambda facts: _each(facts.totals.restarts),
        ("reason",),
    ),
    Metric(
        "ingest_conflicts_total",
        "counter",
        "those among them because somebody else had committed to a table",
        lambda facts: _one(facts.totals.restarts[restart_reasons.CONFLICT.code]),
    ),
    Metric(
        "ingest_upkeep_total",
        "counter",
        "what was done for tables between batches: `ordered` (files sorted or put together), `vacuumed` (old versions "
        "removed), `forgotten` (old rows of the manifest removed), `failed`",
        lambda facts: _each(facts.totals.upkeep),
        ("what",),
    ),
    Metric("ingest_state_rows", "gauge", "rows of Spark's state store", _of_newest("state_rows")),
    Metric(
        "ingest_state_bytes", "gauge", "bytes of Spark's state store", _of_newest("state_bytes")
    ),
    Metric(
        "ingest_flow_up",
        "gauge",
        "1 for a flow that runs, 0 for one that waits or has failed and is tried again",
        lambda facts: _of_flows(facts, lambda one: float(one.state == "runs")),
        ("flow",),
    ),
    Metric(
        "ingest_flow_batch",
        "gauge",
        "a flow's newest batch, by Spark's number",
        lambda facts: _of_flows(facts, lambda one: one.batch),
        ("flow",),
    ),
    Metric(
        "ingest_flow_rows_total",
        "counter",
        "rows that a flow has read",
        lambda facts: _of_flows(facts, lambda one: one.rows),
        ("flow",),
    ),
    Metric(
        "ingest_flow_late_total",
        "counter",
        "rows of those that Spark has dropped behind the watermark, as it counts them",
        lambda facts: _of_flows(facts, lambda one: one.late),
        ("flow",),
    ),
    Metric(
        "ingest_flow_refused_total",
        "counter",
        "rows that a server which a flow writes to has refused, and that are kept",
        lambda facts: _of_flows(facts, lambda one: one.refused),
        ("flow",),
    ),
    Metric(
        "ingest_flow_restarts_total",
        "counter",
        "how often a flow ended unasked, and began anew",
        lambda facts: _of_flows(facts, lambda one: one.restarts),
        ("flow",),
    ),
    Metric(
        "ingest_flow_state_rows",
        "gauge",
        "rows of a flow's state, by operator",
        lambda facts: _of_operators(facts, "rows"),
        ("flow", "operator"),
    ),
    Metric(
        "ingest_flow_state_bytes",
        "gauge",
        "bytes of it in memory",
        lambda facts: _of_operators(facts, "bytes"),
        ("flow", "operator"),
    ),
    Metric(
        "ingest_memory_bytes",
        "gauge",
        "resident memory: `python` (the driver's own process), `java` (its JVM)",
        lambda facts: _each(facts.memory),
        ("process",),
    ),
    Metric(
        "ingest_observe_failures_total",
        "counter",
        "events and sums that could not be made; no change of data depends on them",
        lambda facts: _one(facts.totals.failures),
    ),
)
