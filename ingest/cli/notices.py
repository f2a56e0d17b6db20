"""What `ingest status` has to say of single tables and flows, beside how far they are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cache

from ingest.flows.flow_record import FlowStatus
from ingest.lake.quarantine.waiting_list import Waiting
from ingest.model import reasons
from ingest.model.counted import counted
from ingest.model.gap import Gap
from ingest.model.manifest import TableState
from ingest.observe.only_in_lake import OnlyInLake
from ingest.observe.pipeline_status import ProgressReport


class Goes(IntEnum):
    """How it goes on from here; what asks for a person is told first."""

    BY_HAND = 0
    BY_ITSELF = 1
    OVER = 2


@dataclass(frozen=True)
class Notice:
    """One thing to be said of one table or flow. ``label``: the word that its line begins with; ``alone``: the line, where it has one for itself;
    ``then``: what stands below that line; ``cause``: what is said of several together; ``kind``: what is said of them where their causes
    differ (where it is empty, those of one cause alone are told together); ``together``: what stands below the line of several, where it is
    not what stands below each; ``state``: of several, before the cause; ``amount``, ``unit``: what is added up of several.
    """

    goes: Goes
    label: str
    name: str
    alone: str
    cause: str
    then: str = ""
    style: str = "yellow"
    kind: str = ""
    together: str = ""
    state: str = ""
    amount: int = 0
    unit: str = ""


def notices(report: ProgressReport) -> list[Notice]:
    """All that there is to say, the most urgent first."""
    return sorted(_all(report), key=lambda one: one.goes)


def _all(report: ProgressReport) -> Iterator[Notice]:
    newest = report.newest
    tables = newest.tables if newest else {}
    yield from (_gap(gap, report) for gap in (newest.gaps if newest else ()))
    yield from (_stopped(name, held) for name, held in tables.items() if held.stopped)
    yield from (_left_out(name, why) for name, why in report.left_out.items())
    yield from (_paused(name, held) for name, held in tables.items() if held.paused)
    yield from map(_waiting, report.waiting)
    yield from map(_only_in_lake, report.only_in_lake)
    yield from (_flow(name, flow) for name, flow in report.flows.items())
    yield from (_hidden(name, held) for name, held in tables.items() if held.hidden)
    yield from (_resync(name, waits=name in report.blocking) for name in report.resyncing)
    yield from map(_joins, report.joining)


def _what_to_do(remedy: str) -> str:
    return f"what to do: {remedy}" if remedy and remedy != reasons.BY_ITSELF else ""


@cache
def _known(text: str) -> tuple[str, str]:
    """Of a sentence of :mod:`ingest.model.reasons`: the same without what the case fills in, and its remedy. Empty for others."""
    of_tables = (*reasons.GAPS, *reasons.SET_ASIDE, *reasons.ONLY_IN_LAKE, *reasons.QUARANTINED)
    found = next((one for one in of_tables if one.is_in(text)), None)
    return (re.sub(r"\{\w+\}", "…", found.says), found.remedy) if found else ("", "")


def _gap(gap: Gap, report: ProgressReport) -> Notice:
    kind, remedy = _known(gap.reason)
    alone = f"{gap.table}: {gap.reason}, offsets {gap.start} to {gap.end}, "
    if not report.is_open(gap):
        excluded = gap.table in report.excluded
        state = "the table is excluded by now" if excluded else "mended: the table was taken again"
        together = "they are excluded by now" if excluded else "mended: they were taken again"
        both = "mended, or excluded by now"
        return Notice(
            Goes.OVER, "gap", gap.table, f"{alone}{state}", together, kind=both, style="dim"
        )
    aside = any(one.is_in(gap.reason) for one in reasons.SET_ASIDE)
    waits = report.waits_for_a_person(gap)
    state = "open until `ingest resync` of the table" if waits else "not mended yet"
    if waits and not gap.by_hand:
        state, remedy = f"{state}: {reasons.BY_A_PERSON}", reasons.REPLACES
        remedy += f"; {reasons.PASSED_OVER}" if gap.is_untold else ""
    return Notice(
        Goes.BY_HAND if waits or aside else Goes.BY_ITSELF,
        "gap",
        gap.table,
        f"{alone}{state}",
        gap.reason,
        "" if gap.by_hand else _what_to_do(remedy),
        "red",
        kind,
        _what_to_do(remedy),
        "not mended yet",
    )


def _stopped(name: str, held: TableState) -> Notice:
    return Notice(
        Goes.BY_HAND,
        "stopped",
        name,
        f"{name}: {held.stopped}; its changes wait",
        held.stopped,
        _what_to_do("mend that and run again: a start tries it again, in order"),
        "red",
        state="whose changes wait",
    )


def _left_out(name: str, why: str) -> Notice:
    said = reasons.LEFT_BY_CONNECTOR.of(words=why)
    then = _what_to_do(reasons.LEFT_BY_CONNECTOR.remedy)
    return Notice(Goes.BY_HAND, "left out", name, f"{name}: {said}", said, then, "red")


def _paused(name: str, held: TableState) -> Notice:
    statement = repr(held.paused_by[:80])
    return Notice(
        Goes.BY_HAND,
        "paused",
        name,
        f"{name} before {statement}: its changes wait",
        f"they wait before {statement}",
        _what_to_do(f"let it pass with `approved: {held.paused}` below `tables`"),
        kind="each waits before a statement of its own",
        together=_what_to_do("let each pass with its `approved` below `tables`; --all shows it"),
    )


def _waiting(one: Waiting) -> Notice:
    return Notice(
        Goes.BY_HAND,
        "quarantine",
        one.table,
        f"{one.table}: {counted(one.changes, 'change')}: {one.reason}",
        one.reason,
        _what_to_do(
            "mend the cause and `ingest replay` (or restart the job), or `ingest resync` the table; "
            "`ingest quarantine` lists, shows and drops them"
        ),
        "red",
        _known(one.reason)[0],
        amount=one.changes,
        unit="changes",
    )


def _only_in_lake(one: OnlyInLake) -> Notice:
    """A table that only the lake has; where a setting keeps its rows, that is as it should be."""
    return Notice(
        Goes.OVER if one.keeps else Goes.BY_HAND,
        "left",
        one.name,
        f"{one.name}: {counted(one.rows, 'row')} that only the lake has: {one.reason}",
        f"only the lake has them: {one.reason}",
        "" if one.keeps else _what_to_do(one.remedy),
        "dim" if one.keeps else "yellow",
        _known(one.reason)[0],
        amount=one.rows,
        unit="rows",
    )


def _flow(name: str, one: FlowStatus) -> Notice:
    """How far a flow is."""
    late = f", {one.late:,} came late" if one.late else ""
    refused = f", {one.refused:,} were refused" if one.refused else ""
    bad = one.state in ("failed", "died", "silent")
    return Notice(
        Goes.BY_HAND if bad else Goes.BY_ITSELF,
        "flow",
        name,
        f"{name} {one.state}: batch {one.batch}, {counted(one.rows, 'row')}{late}{refused}",
        f"{one.state}: {one.error}" if bad and one.error else one.state,
        one.error,
        "red" if bad else "",
        one.state if bad else "they run, wait or have ended",
        "`ingest flow list` says how each is",
        amount=one.rows,
        unit="rows",
    )


def _hidden(name: str, held: TableState) -> Notice:
    alone = f"{name} is being taken again: readers see it as of {held.position} until all its rows are there"
    together = (
        "they are being taken again: readers see them as they were until all their rows are there"
    )
    return Notice(Goes.BY_ITSELF, "hidden", name, alone, together)


def _resync(name: str, *, waits: bool) -> Notice:
    alone, together = f"{name} is being taken again", "they are being taken again"
    if waits:
        alone += "; the stream waits while it is read"
        together += "; the stream waits while they are read"
    some = "they are being taken again; the stream waits while some of them are read"
    return Notice(Goes.BY_ITSELF, "resync", name, alone, together, kind=some)


def _joins(name: str) -> Notice:
    alone = f"{name} is not in the lake; the next run takes it whole"
    together = "they are not in the lake; the next run takes them whole"
    return Notice(Goes.BY_ITSELF, "joins", name, alone, together)
