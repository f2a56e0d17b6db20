"""`ingest status` fits on one screen, whatever becomes of how many tables; what asks for a person comes first."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from ingest.cli.status_table import ONE_SCREEN, status_table
from ingest.flows.flow_record import FlowStatus
from ingest.lake.files.lease_holder import Holder
from ingest.lake.quarantine.waiting_list import Waiting
from ingest.model import reasons
from ingest.model.gap import Gap
from ingest.model.manifest import LogState, TableState
from ingest.model.position import Position
from ingest.observe.only_in_lake import OnlyInLake
from ingest.observe.pipeline_status import ConnectorHealth, ProgressReport, TableProgress
from tests.support.sound_start import entry

WELL = ConnectorHealth(True, "the connector is streaming the binlog", "RUNNING")
AT = Position(0, 3, 70)
REASONS = (
    *(one.of(column="'e'") for one in reasons.SET_ASIDE),
    *(
        one.of(columns="a, b", what="the default", where="bin.7:4", table="shop._orders_new")
        for one in reasons.GAPS[:-1]
    ),
    reasons.DROPPED.of(on="2026-01-31", changes=3),
)


def names(many, kind):
    return [f"{kind}.t{number:04d}" for number in range(many)]


def gaps(tables, reason=None, **more):
    return [
        Gap(name, f"p.{name}", 0, 3, 6, reason or REASONS[n % len(REASONS)], 8, position=AT, **more)
        for n, name in enumerate(tables)
    ]


def held(many):
    """Tables that stand still in each way, as many of each."""
    state = TableState("/l/t", 7, position=AT, log=LogState("/l/t__changes", 3, "id"))
    found = {}
    for number in range(many):
        words = reasons.STOPPED.of(words=f"column c{number} of {number} is too long for Delta")
        ddl = f"ALTER TABLE t{number:04d} DROP COLUMN\nv"
        found |= {
            f"stopped.t{number:04d}": replace(state, stopped=words),
            f"paused.t{number:04d}": replace(state, paused=AT, paused_by=ddl),
            f"hidden.t{number:04d}": replace(state, hidden=AT),
        }
    return found


def in_every_state(many):
    """So many tables, and flows, in each state that `status` knows."""
    mended = gaps(names(many, "mended"), resync=AT)
    newest = entry(
        gaps=(*gaps(names(many, "open")), *mended, *gaps(names(many, "excluded"))),
        tables=held(many),
        source_time=entry().started_at,
        stages={"read": 0.1, "merge": 0.2},
        lanes={"driver": 4, "tasks": 5},
        state_rows=70,
        state_bytes=10**6,
    )
    states = ("runs", "failed", "died", "waits")
    return ProgressReport(
        "p",
        newest,
        tuple(TableProgress(name, 4, 7, "delta-rs") for name in names(many, "shop")),
        12,
        WELL,
        10**6,
        resyncing=tuple(names(many, "resync")),
        blocking=frozenset(names(many // 2, "resync")),
        waiting=tuple(Waiting(name, reasons.NO_AFTER.says, 3) for name in names(many, "waiting")),
        excluded=frozenset(names(many, "excluded")),
        only_in_lake=tuple(
            OnlyInLake(name, 3, f"a reason: {n}", f"a remedy: {n}", keeps="x" if n % 2 else "")
            for n, name in enumerate(names(many, "left"))
        ),
        joining=tuple(names(many, "joins")),
        left_out={name: f"row size {n}" for n, name in enumerate(names(many, "out"))},
        flows={
            f"f{n}": FlowStatus(states[n % len(states)], 3, rows=5, error="it is away" * (n % 2))
            for n in range(many)
        },
        job=Holder("runs", 3),
    )


EVERY_LABEL = (
    *("gap", "stopped", "paused", "left out", "quarantine", "left", "flow"),
    *("hidden", "resync", "joins"),
)


def shown(report, *, whole=False, width=120):
    console = Console(width=width, soft_wrap=True)
    with console.capture() as said:
        console.print(status_table(report, whole=whole))
    return said.get().splitlines()


@pytest.mark.parametrize("many", [2, 3, 4, 21, 300, 1000])
def test_with_so_many_tables_in_every_state_it_fits_on_one_screen_and_hides_no_state(many):
    lines = shown(in_every_state(many))
    assert len(lines) <= ONE_SCREEN
    for label in EVERY_LABEL:
        assert [line for line in lines if line.startswith(f"{label} ")], label
    assert any(line.startswith("shop.t") for line in lines)


def test_a_thousand_tables_that_are_taken_again_are_one_line_that_counts_them_and_names_some():
    report = ProgressReport("p", None, (), 0, WELL, 0, resyncing=tuple(names(1000, "shop")))
    (line,) = [line for line in shown(report) if line.startswith("resync")]
    assert line == (
        "resync     1,000 tables (shop.t0000, shop.t0001, shop.t0002 and 997 more): they are being taken again"
    )


def test_all_names_each():
    report = in_every_state(300)
    lines = shown(report, whole=True)
    for kind in ("open", "mended", "stopped", "paused", "hidden", "resync", "joins", "left", "out"):
        for name in names(300, kind):
            assert any(f" {name}" in line for line in lines), name


def test_what_asks_for_a_person_comes_before_what_goes_on_by_itself_and_that_before_what_is_over():
    lines = shown(in_every_state(300))
    order = ("gap", "stopped", "left out", "paused", "quarantine", "left  ", "hidden", "resync", "joins", "shop.t")  # fmt: skip
    places = [next(n for n, line in enumerate(lines) if line.startswith(word)) for word in order]
    assert places == sorted(places)
    (over,) = [n for n, line in enumerate(lines) if "mended, or excluded" in line]
    assert places[-2] < over < places[-1]


def test_of_many_that_stand_still_for_one_cause_cause_and_remedy_are_said_once():
    state = TableState("/l/t", 7, stopped=reasons.STOPPED.of(words="a disk is full"))
    tables = dict.fromkeys(names(40, "shop"), state)
    report = ProgressReport("p", entry(tables=tables), (), 0, WELL, 0)
    (at,) = [n for n, line in enumerate(shown(report)) if "a disk is full" in line]
    line, remedy = shown(report)[at : at + 2]
    assert line.startswith("stopped    40 tables (shop.t0000, shop.t0001, shop.t0002 and 37 more)")
    assert "what to do: mend that and run again" in remedy


def test_causes_that_differ_are_told_apart_where_there_is_room_and_counted_where_there_is_none():
    few = ProgressReport("p", entry(gaps=tuple(gaps(names(8, "shop")))), (), 0, WELL, 0)
    assert all(any(reason in line for line in shown(few)) for reason in REASONS[:8])
    crowded = [line for line in shown(in_every_state(1000)) if line.startswith("gap ")]
    assert any("other causes" in line for line in crowded)


def test_one_table_that_asks_for_a_person_is_told_beside_a_thousand_that_do_not():
    by_itself = gaps(names(1000, "shop"), reasons.FIRST_ROWS.says)
    by_hand = gaps(["zoo.last"], reasons.DROPPED.of(on="2026-01-31", changes=3))
    newest = entry(gaps=(*by_itself, *by_hand))
    report = ProgressReport("p", newest, (), 0, WELL, 0, resyncing=tuple(names(1000, "shop")))
    lines = [line for line in shown(report) if line.startswith("gap ")]
    assert "zoo.last: dropped from quarantine on 2026-01-31" in lines[0]
    assert lines[1].startswith("gap        1,000 tables (")
    assert len(lines) == 2


@settings(max_examples=30)
@given(st.integers(0, 60), st.integers(0, 400), st.integers(0, 400), st.integers(0, 60))
def test_it_fits_whatever_the_numbers(stopped, resyncing, tables, open_gaps):
    report = replace(
        in_every_state(0),
        newest=entry(
            gaps=tuple(gaps(names(open_gaps, "open"))),
            tables={k: v for k, v in held(stopped).items() if k.startswith("stopped")},
        ),
        resyncing=tuple(names(resyncing, "resync")),
        tables=tuple(TableProgress(name, 4, 7, "delta-rs") for name in names(tables, "shop")),
    )
    lines = shown(report)
    assert len(lines) <= ONE_SCREEN
    assert sum(line.startswith("shop.t") for line in lines) >= min(5, tables)


@pytest.mark.parametrize(("whole", "lines"), [(False, 1), (True, 4)])
def test_a_row_of_the_list_is_one_line_however_much_its_engine_says_unless_all_is_asked_for(
    whole, lines
):
    engine = "spark: delta-rs could not: " + "words of it " * 12
    report = ProgressReport("p", None, (TableProgress("shop.t", 4, 7, engine),), 12, WELL, 0)
    said = shown(report, whole=whole, width=80)
    assert said[-lines].startswith("shop.t ")
