"""What a run tells machines, as values: one event per thing that happened, with a batch number and a table where it has
them.

An event carries names (tables, columns, stages, codes) and numbers. It never carries a value of a row, a key, a setting
or the text of a failure, since Spark and delta-rs write the row they failed on into theirs. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from ingest.model.errors import IngestError, table_of
from ingest.model.gap import Gap
from ingest.model.manifest import TableState
from ingest.model.reasons import COULD_NOT
from ingest.model.topics import TableId
from ingest.observe.published import Published
from ingest.schema.steps import READ_BY_SPARK

RUN_STARTED = "run_started"
RUN_ENDED = "run_ended"
START_DECIDED = "start_decided"
STREAM_RESTARTED = "stream_restarted"
BATCH_PUBLISHED = "batch_published"
TABLE_APPLIED = "table_applied"
CHANGES_QUARANTINED = "changes_quarantined"
GAP_OPENED = "gap_opened"
GAP_CLOSED = "gap_closed"
UPKEEP_DONE = "upkeep_done"
TABLE_LEFT_OUT = "table_left_out"

KINDS = (
    RUN_STARTED,
    RUN_ENDED,
    START_DECIDED,
    STREAM_RESTARTED,
    BATCH_PUBLISHED,
    TABLE_APPLIED,
    CHANGES_QUARANTINED,
    GAP_OPENED,
    GAP_CLOSED,
    UPKEEP_DONE,
    TABLE_LEFT_OUT,
)
"""All of them; docs/metrics.md says what each carries."""

Field = str | int | float | bool | None | Sequence[str] | Mapping[str, float]


@dataclass(frozen=True)
class Event:
    """``name``: one of :data:`KINDS`."""

    name: str
    fields: Mapping[str, Field]


def started(pipeline: str, version: str, term: int) -> Event:
    """The run holds the lease."""
    return Event(RUN_STARTED, {"pipeline": pipeline, "version": version, "term": term})


def ended(failure: BaseException | None, batches: int, seconds: float) -> Event:
    """The run ends. Of a failure its code or its kind is told, and the table it is about."""
    fields: dict[str, Field] = {"batches": batches, "seconds": round(seconds, 3)}
    if failure is not None:
        fields |= {"failure": _named(failure), "table": table_of(failure) or None}
    return Event(RUN_ENDED, {"ok": failure is None, **fields})


def _named(failure: BaseException) -> str:
    return failure.code if isinstance(failure, IngestError) else type(failure).__name__


def decided(
    *,
    finish: int | None,
    resume: bool,
    rewinds: bool,
    resync: Sequence[str],
    restored: Sequence[str],
) -> Event:
    """How the stream begins. ``finish``: the torn batch that is finished first; ``resume``: Spark's checkpoint goes on;
    ``rewinds``: where topics go on was set back or forward; ``resync``: tables to take again; ``restored``: tables brought
    to a published version first.
    """
    return Event(
        START_DECIDED,
        {
            "finish": finish,
            "resume": resume,
            "rewinds": rewinds,
            "resync": list(resync),
            "restored": list(restored),
        },
    )


def restarted(reason: str, batch: int | None) -> Event:
    """The stream ended unasked and begins anew. ``batch``: the newest that is published."""
    return Event(STREAM_RESTARTED, {"reason": reason, "batch": batch})


def published(what: Published) -> Iterator[Event]:
    """A row of the manifest, and what it says of tables and gaps."""
    entry = what.entry
    yield Event(
        BATCH_PUBLISHED,
        {
            "batch": entry.batch_id,
            "kind": entry.kind,
            "changes": entry.changes,
            "resent": entry.resent,
            "remembered": entry.remembered,
            "late": entry.late,
            "tables": len(what.touched),
            "seconds": round(entry.seconds, 3),
            "stages": {stage: round(took, 3) for stage, took in entry.stages.items()},
            "lanes": dict(entry.lanes),
            "source_time": entry.source_time.isoformat() if entry.source_time else None,
            "position": str(entry.position) if entry.position else None,
        },
    )
    for name, state in what.touched.items():
        yield _applied(what, name, state)
    if entry.rejects:
        yield Event(CHANGES_QUARANTINED, {"batch": entry.batch_id, "changes": entry.rejects})
    for gap in what.opened:
        yield Event(GAP_OPENED, {**_gap(entry.batch_id, gap), "reason": gap.reason})
    for gap in what.closed:
        yield Event(GAP_CLOSED, _gap(entry.batch_id, gap))


def _applied(what: Published, name: str, state: TableState) -> Event:
    engine, why = merged_by(state.engine)
    return Event(
        TABLE_APPLIED,
        {
            "batch": what.entry.batch_id,
            "table": name,
            "changes": state.changes,
            "version": state.version,
            "reader": what.reader(name),
            "engine": engine,
            "why": why,
        },
    )


def merged_by(said: str) -> tuple[str, str]:
    """The engine, and why that one, of the manifest's own words; without those that delta-rs added, which may hold
    values of rows.
    """
    engine, _, why = said.partition(": ")
    why = why.partition(READ_BY_SPARK)[0]
    opening = COULD_NOT.opening
    return engine, opening if why.startswith(opening) else why


def _gap(batch: int, gap: Gap) -> dict[str, Field]:
    return {
        "batch": batch,
        "table": gap.table,
        "topic": gap.topic,
        "partition": gap.partition,
        "start": gap.start,
        "end": gap.end,
        "since": gap.since,
    }


def upkeep(batch: int, table: str, what: str, *, rows: int, files: int, seconds: float) -> Event:
    """What was done for a table before a batch; why it failed, where it did, is told to people only."""
    return Event(
        UPKEEP_DONE,
        {
            "batch": batch,
            "table": table,
            "what": what,
            "rows": rows,
            "files": files,
            "seconds": round(seconds, 3),
        },
    )


def left_out(table: TableId) -> Event:
    """The connector leaves it out until the next run. Why is told to people only: a cause may quote a row."""
    return Event(TABLE_LEFT_OUT, {"table": str(table)})


def table_at(lake: str, path: str) -> str:
    """The table that a path below the lake is of; the path below it where it is one of ingest's own."""
    below = path.removeprefix(lake.rstrip("/") + "/")
    parts = below.split("/")
    if len(parts) != 2 or parts[0].startswith("_"):
        return below
    return str(TableId(unquote(parts[0]), unquote(parts[1])))
