"""How far a pipeline is, gathered without Spark: for `status` and the live view."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ingest.config.pipeline_file import Pipeline
from ingest.flows.flow_now import FlowLooks
from ingest.flows.flow_record import FlowStatus
from ingest.kafka import broker
from ingest.lake.files import lease_folder, lease_holder
from ingest.lake.files.lease_holder import Holder
from ingest.lake.files.storage import files_at
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.lake.quarantine.waiting_list import Waiting, waiting_list
from ingest.model.errors import IngestError
from ingest.model.gap import Gap
from ingest.model.location import within_reach
from ingest.model.manifest import Entry
from ingest.model.names import lease_path
from ingest.model.only_by_hand import only_by_hand
from ingest.model.topics import TableId, captured
from ingest.observe import caught_up, held_tables, left_tables
from ingest.observe.only_in_lake import OnlyInLake
from ingest.source import mysql
from ingest.source.connector import Connector, is_snapshotting, undelivered
from ingest.source.diagnosis import SILENT_AFTER, Facts, diagnose
from ingest.source.later_tables import TakenBefore
from ingest.source.left_out import LeftOut
from ingest.source.resync import Requests
from ingest.source.resync_request import Request


@dataclass(frozen=True)
class ConnectorHealth:
    """One sentence on the connector, and whether it delivers."""

    good: bool
    sentence: str
    task: str

    def as_json(self) -> dict[str, object]:
        """For ``--json``."""
        return {"healthy": self.good, "task": self.task, "sentence": self.sentence}


def connector_health(pipeline: Pipeline) -> ConnectorHealth:
    """Task state, binlog stream and progress, as one look shows them."""
    connector = Connector(pipeline)
    status = connector.status()
    if status is None:
        return ConnectorHealth(
            False, f"there is no connector {pipeline.name!r}; `ingest run` creates it", "ABSENT"
        )
    offset = connector.offset()
    snapshotting = is_snapshotting(offset)
    streams = mysql.dump_threads(pipeline.source)
    if streams == 0 and not snapshotting and status.task == "RUNNING":
        # One look cannot tell a reconnect from a silence; look again before calling it silent.
        until = time.monotonic() + SILENT_AFTER
        while streams == 0 and time.monotonic() < until:
            time.sleep(1)
            streams = mysql.dump_threads(pipeline.source)
    silent = SILENT_AFTER if streams == 0 and not snapshotting else 0.0
    found = diagnose(Facts(status, snapshotting, streams, silent))
    if found.sentence:
        return ConnectorHealth(False, found.sentence, status.task)
    if status.task != "RUNNING":
        return ConnectorHealth(False, f"the connector's task is {status.task}", status.task)
    doing = "taking the snapshot" if snapshotting else "streaming the binlog"
    return ConnectorHealth(True, f"the connector is {doing}", status.task)


@dataclass(frozen=True)
class TableProgress:
    """One table: records in Kafka that are not applied yet, and the version that readers see."""

    name: str
    pending: int
    version: int
    engine: str = ""
    """What made its last MERGE, and why."""


@dataclass(frozen=True)
class ProgressReport:
    """A pipeline at one moment. ``missing``: MySQL transactions that are not in Kafka yet."""

    pipeline: str
    newest: Entry | None
    tables: tuple[TableProgress, ...]
    missing: int | None
    connector: ConnectorHealth
    total_changes: int
    resyncing: tuple[str, ...] = ()
    """Tables that are being taken again."""
    waiting: tuple[Waiting, ...] = ()
    """What waits in quarantine."""
    excluded: frozenset[str] = frozenset()
    """Tables with a gap that the pipeline file takes no more: they stay as they are, and nothing is missing."""
    by_hand: frozenset[str] = frozenset()
    """Tables with a gap that only a person has taken again, and that nobody has asked for yet."""
    only_in_lake: tuple[OnlyInLake, ...] = ()
    """Tables with rows that the source does not capture any more."""
    joining: tuple[str, ...] = ()
    """Tables that `source.tables` takes since the last run: they are incomplete, and the next run takes them whole."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Tables that the connector leaves out since its task fails at them, each with why."""
    flows: Mapping[str, FlowStatus] = field(default_factory=dict)
    """Those that have run, as each has said last, where who said so still lives."""
    blocking: frozenset[str] = frozenset()
    """Of those that are being taken again the ones for which the stream waits."""
    job: Holder | None = None
    """Who keeps the lake; None where that was not looked at: in a file system that only Spark reaches."""

    @property
    def runs(self) -> bool:
        """False where no job does, or one that does not move."""
        return self.job is None or self.job.state == "runs"

    @property
    def open_gaps(self) -> int:
        """Losses in Kafka, and what else the lake lacks, whose table was not taken again yet."""
        return sum(self.is_open(gap) for gap in (self.newest.gaps if self.newest else ()))

    def is_open(self, gap: Gap) -> bool:
        """True until the table was taken again, or is none of the pipeline's any more."""
        return gap.is_open and gap.table not in self.excluded

    def waits_for_a_person(self, gap: Gap) -> bool:
        """True where its table is not taken again by itself."""
        return gap.by_hand or gap.table in self.by_hand

    @property
    def pending(self) -> int:
        """Records that wait in Kafka."""
        return sum(table.pending for table in self.tables)

    def as_json(self) -> dict[str, Any]:
        """For ``--json``."""
        newest = self.newest
        return {
            "pipeline": self.pipeline,
            "connector": self.connector.as_json(),
            "job": self.job.as_json() if self.job else None,
            "batch": None
            if newest is None
            else {
                "id": newest.batch_id,
                "changes": newest.changes,
                "rejects": newest.rejects,
                "seconds": newest.seconds,
                "stages": dict(newest.stages),
                "lanes": dict(newest.lanes),
                "source_time": newest.source_time,
                "position": str(newest.position),
            },
            "total_changes": self.total_changes,
            "transactions_not_in_kafka": self.missing,
            "records_not_applied": self.pending,
            "gaps": [
                {
                    "table": gap.table,
                    "topic": gap.topic,
                    "offsets": [gap.start, gap.end],
                    "reason": gap.reason,
                    "open": self.is_open(gap),
                    "by_hand": self.is_open(gap) and self.waits_for_a_person(gap),
                }
                for gap in (newest.gaps if newest else ())
            ],
            "resyncing": list(self.resyncing),
            "blocking": sorted(self.blocking),
            "joining": list(self.joining),
            "left_out": [{"table": name, "reason": why} for name, why in self.left_out.items()],
            "change_logs": [
                {"table": name, "path": state.log.path, "version": state.log.version}
                for name, state in (newest.tables if newest else {}).items()
                if state.log
            ],
            "paused": [
                {"table": name, "statement": state.paused_by, "position": str(state.paused)}
                for name, state in (newest.tables if newest else {}).items()
                if state.paused
            ],
            "stopped": [
                {"table": name, "reason": state.stopped}
                for name, state in (newest.tables if newest else {}).items()
                if state.stopped
            ],
            "hidden": [
                {"table": name, "snapshot": str(state.hidden), "readers_see": str(state.position)}
                for name, state in (newest.tables if newest else {}).items()
                if state.hidden
            ],
            "flows": {name: one.as_json() for name, one in self.flows.items()},
            "waiting": [one.as_json() for one in self.waiting],
            "only_in_lake": [one.as_json() for one in self.only_in_lake],
            "tables": [
                {
                    "name": t.name,
                    "version": t.version,
                    "records_not_applied": t.pending,
                    "merged_by": t.engine,
                }
                for t in self.tables
            ],
        }


def gather(pipeline: Pipeline) -> ProgressReport:
    """Ask MySQL, Connect, Kafka and the manifest. What MySQL or Connect alone know is left open while they are away.
    Raises :class:`IngestError` while Kafka is.
    """
    broker.refuse_away(pipeline)
    # Elsewhere it would take a Spark to look.
    reached = within_reach(pipeline.lake.path)
    lease = files_at(lease_path(pipeline.lake.path)) if reached else None
    seen = (
        lease_folder.look(lease) if lease else None
    )  # servers take their time to answer, and the counter moves
    flows = FlowLooks.first(pipeline) if reached else None
    ledger = Ledger(pipeline.lake.path)
    newest = ledger.last()
    health, missing = _of_servers(pipeline)
    requests = Requests(pipeline).open() if reached else []
    return ProgressReport(
        pipeline=pipeline.name,
        newest=newest,
        tables=pending(pipeline, newest),
        missing=missing,
        connector=health,
        total_changes=ledger.total_changes(),
        resyncing=tuple(one.table for one in requests),
        blocking=frozenset(one.table for one in requests if one.kind == "BLOCKING"),
        waiting=tuple(waiting_list(pipeline.lake.path)),
        excluded=excluded(newest.gaps if newest else (), pipeline.source.tables),
        by_hand=_by_hand(pipeline, newest, requests) if newest and reached else frozenset(),
        only_in_lake=tuple(left_tables.gather(pipeline, newest.tables)) if newest else (),
        joining=_joining(pipeline) if reached else (),
        left_out=LeftOut(pipeline).tables() if reached else {},
        flows=flows.status() if flows else {},
        job=lease_holder.holder(lease, seen) if lease and seen else None,
    )


def _by_hand(pipeline: Pipeline, newest: Entry, requests: Collection[Request]) -> frozenset[str]:
    found = only_by_hand(newest, partial(held_tables.outlives, pipeline))
    return found - {one.table for one in requests}


def _joining(pipeline: Pipeline) -> tuple[str, ...]:
    """By what MySQL has now; none while it is away."""
    try:
        with mysql.connected(pipeline.source) as cursor:
            there = mysql.base_tables(cursor)
    except IngestError as failure:
        if not failure.may_pass:
            raise
        return ()
    return tuple(map(str, TakenBefore(pipeline).joining(there)))


def _of_servers(pipeline: Pipeline) -> tuple[ConnectorHealth, int | None]:
    """How the connector is, and what of MySQL's is not in Kafka; what can be known of both while a server is away."""
    try:
        return connector_health(pipeline), not_delivered(pipeline)
    except IngestError as failure:
        if not failure.may_pass:
            raise
        return ConnectorHealth(False, failure.what.rstrip("."), "UNKNOWN"), None


def excluded(gaps: Iterable[Gap], patterns: Sequence[str]) -> frozenset[str]:
    """Of the tables with a gap, those that these patterns do not take. What is known by its topic alone is missing."""
    named = {table for gap in gaps if (table := gap.of) is not None}
    return frozenset(str(table) for table in named - set(captured(named, patterns)))


def not_delivered(pipeline: Pipeline) -> int | None:
    """MySQL transactions whose changes are not known to be in Kafka.

    None during a snapshot, and on a server without GTIDs, where they cannot be counted.
    """
    with mysql.connected(pipeline.source) as cursor:
        target = mysql.reached(cursor)
    try:
        return undelivered(Connector(pipeline).offset(), target)
    except IngestError:
        return None


def pending(pipeline: Pipeline, newest: Entry | None) -> tuple[TableProgress, ...]:
    """Per table: the records in Kafka that are not applied (transaction markers count as records)."""
    ends = broker.end_offsets(pipeline, broker.data_topics(pipeline))
    applied = newest.ends if newest else {}
    for name, state in (newest.tables if newest else {}).items():
        if state.waits and newest:  # read, but what waits there is not applied
            topic = pipeline.topic(TableId.parse(name))
            marks = {p: mark.offset for p, mark in newest.high_water.items() if p[0] == topic}
            applied |= {p: min(offset, applied[p]) for p, offset in marks.items()}
    states = newest.tables if newest else {}
    counted = caught_up.waiting(applied, ends)
    named = caught_up.names(counted, states, pipeline.topic, pipeline.topic_prefix)
    waiting = {named[topic]: count for topic, count in counted.items()}
    return tuple(
        TableProgress(name, waiting.get(name, 0), found.version, found.engine)
        if (found := states.get(name))
        else TableProgress(name, waiting.get(name, 0), -1)
        for name in sorted({*waiting, *states})
    )
