"""What the manifest says of each table and partition once a batch is applied. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from types import MappingProxyType

from ingest import __version__
from ingest.changes import restarted_snapshots
from ingest.model import numberings, reasons
from ingest.model.gap import Gap
from ingest.model.manifest import Entry, HighWater, Place, TableState
from ingest.model.position import Position
from ingest.model.position_ties import Doubt
from ingest.model.start_facts import Note
from ingest.model.topics import TableId
from ingest.schema.catalog import Catalog
from ingest.schema.steps import Applied, TableFacts

CLOSED_GAPS = 100
"""So many closed ones stay in the manifest, so that who looks sees what was mended lately. Nothing is decided by one: what is
asked for again is what is open."""


def before_the_first(checkpoint_id: str = "") -> Entry:
    """What the manifest says while it has no row: nothing was read, and the lake holds nothing."""
    return Entry(
        batch_id=0,
        checkpoint_id=checkpoint_id,
        offsets={},
        high_water={},
        tables={},
        changes=0,
        rejects=0,
        position=None,
        source_time=None,
        schema_offset=0,
        started_at=datetime.fromtimestamp(0, timezone.utc),
        seconds=0.0,
        code_version=__version__,
    )


def entry(
    previous: Entry | None,
    note: Note,
    facts: Mapping[TableId, TableFacts],
    applied: list[Applied],
    touched: Sequence[Place],
    *,
    catalog: Catalog,
    topic_ids: Mapping[str, str],
    topic: Callable[[TableId], str],
    waiting: Mapping[Place, int],
    doubts: Mapping[TableId, Doubt],
    stopped: Mapping[TableId, TableState] = MappingProxyType({}),
    hidden: Mapping[TableId, Position] = MappingProxyType({}),
) -> Entry:
    """A batch's row of the ledger, but for its counts, its times, and who wrote it. ``waiting``: where
    changes begin that a policy lets wait; ``doubts``: tables that are to be taken again, with why; ``stopped``: tables
    to which their part of the batch could not be applied, as they stand now; ``hidden``: tables of which a snapshot begins
    that waits until it is whole, with its place.
    """
    states = previous.tables if previous else {}
    begin = {
        str(table): replace(states[str(table)], changes=0, hidden=at)
        for table, at in hidden.items()
    }
    now = {**begin, **{str(table): state for table, state in stopped.items()}}
    before = {
        name: state
        for name, state in states.items()
        if state.stopped or (state.hidden and name != note.shows)
    }
    still = {**before, **now}
    facts = {table: found for table, found in facts.items() if str(table) not in still}
    topics = {topic(TableId.parse(name)): name for name in {*note.paused, *still}}
    begun = {place: note.ranges[place][0] for place in touched if topics.get(place[0]) in still}
    # Of one that is whole by now nothing waits any more but what this very batch has found to.
    waited = {of: name for of, name in topics.items() if name != note.shows}
    held = waits_from(previous, {**waiting, **begun}, waited)
    offsets = {place: (end, end) for place, end in (previous.ends if previous else {}).items()}
    same = previous is not None and previous.checkpoint_id == note.checkpoint_id
    known = (previous.spark_batch, previous.part) if previous and same else (None, None)
    spark_batch, part = note.spark or known
    positions = [previous.position if previous else None]
    positions += [found.high for found in facts.values()]
    times = [previous.source_time if previous else None]
    times += [found.source_time for found in facts.values()]
    return Entry(
        batch_id=note.batch_id,
        checkpoint_id=note.checkpoint_id,
        offsets=offsets | dict(note.ranges),
        high_water=high_water(
            previous,
            facts,
            {place: held.get(place, note.ranges[place][1]) for place in touched},
            topic_ids,
        ),
        tables=paused(
            table_states(previous, facts, applied, catalog, replay=note.replay) | now,
            note.paused,
            catalog,
        ),
        gaps=gaps(previous, facts, applied, note, topic, doubts),
        changes=sum(found.changes for found in facts.values()),
        rejects=0,
        position=max((at for at in positions if at), default=None),
        source_time=max((at for at in times if at), default=None),
        schema_offset=note.schema_offset,
        started_at=datetime.now(timezone.utc),
        seconds=0.0,
        code_version=__version__,
        spark_batch=spark_batch,
        part=part,
    )


_NEVER = Position(0, 0, 0)
"""A table that was made after the pipeline's own snapshot: any snapshot of it is newer."""


def table_states(
    previous: Entry | None,
    facts: Mapping[TableId, TableFacts],
    applied: list[Applied],
    catalog: Catalog,
    *,
    replay: bool = False,
) -> dict[str, TableState]:
    """Every table as the batch left it: the ones before, and what was applied now. ``replay``: that is what waited in
    quarantine.
    """
    tables = {
        name: replace(state, changes=0)
        for name, state in (previous.tables if previous else {}).items()
    }
    for one in applied:
        name, found = str(one.table), facts[one.table]
        state = tables.get(name, TableState(one.path, one.version))
        attempt = found.attempt
        truncates = found.truncates if found.wiped else ()
        goes_on = attempt and state.floor and attempt.is_of(state.run, state.floor)
        begun = attempt.position if attempt and not goes_on else None
        floors = [state.floor, *truncates, one.wiped, begun]
        version = catalog.at(one.table, found.high)
        tables[name] = replace(
            state,
            path=one.path,
            version=one.version,
            id=one.id,
            changes=one.changes,
            engine=one.engine or state.engine,
            log=one.log,
            snapshot=state.snapshot or restarted_snapshots.first(catalog, one.table) or _NEVER,
            reread=_reread(state, found, replay=replay),
            position=max(p for p in (state.position, found.high) if p),
            hidden=None,
            left_out=tuple(sorted(version.left_out)) if version else (),
            kept=version.kept if version else (),
            floor=max((floor for floor in floors if floor), default=None),
            run=attempt.run
            if attempt and attempt.position >= (state.floor or attempt.position)
            else state.run,
        )
    return tables


def _reread(state: TableState, found: TableFacts, *, replay: bool) -> Position | None:
    """Where the rows of the incremental snapshot that is under way begin; None for none.

    A replay brings rows of one that may be over: they begin none, or the next one would seem to have begun where they
    stand, and rows that it did not contain would stay. Of one that is under way they may be the first, and then they
    must not go as older than it.
    """
    if state.reread is None and replay:
        return None
    # A connector whose task began again in the middle goes on from a place before that of its last rows (115 bytes were seen).
    return min((place for place in (state.reread, found.reread) if place), default=None)


def paused(
    tables: Mapping[str, TableState], barriers: Mapping[str, Position], catalog: Catalog
) -> dict[str, TableState]:
    """The same tables, with the DDLs that some stand before."""
    found = dict(tables)
    for name, at in barriers.items():
        versions = catalog.versions.get(TableId.parse(name), ())
        statement = next((v.ddl for v in versions if v.position == at), "")
        if name in found:
            found[name] = replace(found[name], paused=at, paused_by=statement)
    return found


def waits_from(
    previous: Entry | None, waiting: Mapping[Place, int], topics: Mapping[str, str]
) -> dict[Place, int]:
    """How far the marks of partitions go in which changes wait: to the first one of them. ``topics`` of
    tables that stand still, each with its table.
    """
    found = dict(waiting)
    for place, end in (previous.ends if previous else {}).items():
        assert previous is not None
        state = previous.tables.get(topics.get(place[0], ""))
        mark = previous.high_water.get(place, HighWater())
        # A mark behind what was read: earlier batches have left changes there already.
        if state and state.waits and mark.offset < end:
            found[place] = mark.offset
    return found


def gaps(
    previous: Entry | None,
    facts: Mapping[TableId, TableFacts],
    applied: list[Applied],
    note: Note,
    topic: Callable[[TableId], str],
    doubts: Mapping[TableId, Doubt],
) -> tuple[Gap, ...]:
    """The gaps before, and those of DDLs of which only MySQL knows what they did to existing rows, and of changes of
    which only MySQL knows what they were.
    """
    found = list(previous.gaps if previous else ())

    def add(table: TableId, reason: str, at: Position) -> None:
        name = topic(table)
        end = note.ranges.get((name, 0), (0, 0))[1]
        found.append(Gap(str(table), name, 0, end, end, reason, note.batch_id, position=at))

    for one in applied:
        if one.unknown and not _taken_whole(facts[one.table]):
            reason = reasons.ONLY_MYSQL_KNOWS.of(what=" and ".join(one.unknown))
            add(one.table, reason, facts[one.table].high)
    for table, doubt in doubts.items():
        high = facts[table].high if table in facts else doubt.position
        add(table, doubt.reason, max(high, doubt.position))
    return tuple(found)


def _taken_whole(found: TableFacts) -> bool:
    """True where a snapshot of the table comes at its newest place, and so behind all DDLs that the batch has of it: what
    they made of existing rows is in its rows. The definition that a snapshot begins with is such a DDL.
    """
    if found.attempt is None:
        return False
    high, at = found.high, found.attempt.highest or found.attempt.position
    return (high.epoch, high.file, high.pos) <= (at.epoch, at.file, at.pos)


def without_old_gaps(entry: Entry, previous: Entry | None) -> Entry:
    """A row without the closed gaps that were closed longest ago, but for :data:`CLOSED_GAPS` of them. What this row itself closes
    is in it, so that it can be told; what is open always stays.
    """
    before = set(previous.gaps) if previous else set[Gap]()
    old = sorted(
        (gap.resync, at) for at, gap in enumerate(entry.gaps) if gap.resync and gap in before
    )
    gone = {at for _, at in old[: max(0, len(old) - CLOSED_GAPS)]}
    if not gone:
        return entry
    return replace(entry, gaps=tuple(gap for at, gap in enumerate(entry.gaps) if at not in gone))


def high_water(
    previous: Entry | None,
    facts: Mapping[TableId, TableFacts],
    ends: Mapping[Place, int],
    topic_ids: Mapping[str, str],
) -> dict[Place, HighWater]:
    """The marks after a batch that reached these ends; ``topic_ids`` of topics seen first now."""
    marks = dict(previous.high_water) if previous else {}
    for place, end in ends.items():
        mark = marks.get(place, HighWater())
        topic_id = mark.topic_id or topic_ids.get(place[0], "")
        marks[place] = replace(mark, offset=max(mark.offset, end), topic_id=topic_id)
    for found in facts.values():
        for place, (position, gtid) in found.high_water.items():
            mark = before = marks.get(place, HighWater())
            if before.position is None or position > before.position:
                mark = replace(mark, position=position, gtid=gtid)
                if before.position and position.epoch > before.position.epoch:
                    mark = replace(mark, others=())  # of a log that is over, but for its last one
            came = found.numbers.get(place, {})
            others = numberings.others(mark.others, before.gtid, mark.gtid, came)
            marks[place] = replace(mark, others=others)
    return marks


def unnamed(previous: Entry | None, touched: Sequence[Place]) -> list[str]:
    """Topics whose own id is not noted yet."""
    marks = previous.high_water if previous else {}
    return sorted({place[0] for place in touched if not marks.get(place, HighWater()).topic_id})
