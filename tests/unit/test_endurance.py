"""`bench.endurance`: its history is the same each time, comes as a source would write it, and what grows is called so."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from bench.long_history import History, Row
from bench.watched import Series


def test_two_histories_of_a_seed_are_the_same_record_by_record() -> None:
    one, other = History(7, ddl_every=5), History(7, ddl_every=5)
    for _ in range(80):
        records = [one.record(change) for change in one.next()]
        assert records == [other.record(change) for change in other.next()]


@pytest.mark.parametrize("seed", [7, 8])
def test_what_a_history_holds_is_what_its_changes_make(seed: int) -> None:
    history = History(seed, ddl_every=4)
    keyed = {one: dict[object, Row]() for one in ("orders", "stock", "carts", "prices")}
    visits = Counter[str]()
    for _ in range(800):
        for change in history.next():
            if change.table == "visits":
                visits[json.dumps(change.before)] -= 1
                visits[json.dumps(change.after)] += 1
                continue
            rows = keyed[change.table]
            if change.op == "t":
                rows.clear()
            if change.before is not None:
                assert rows.pop(change.before["id"])
            if change.after is not None:
                assert rows.setdefault(change.after["id"], change.after) is change.after
    del visits["null"]
    assert +visits == Counter(map(json.dumps, history.rows("visits")))
    for table in ("orders", "carts"):  # what a DDL makes of a row is in no record
        assert list(history.rows(table)) == [keyed[table][key] for key in sorted(keyed[table])]
    for table in ("stock", "prices"):
        assert {row["id"] for row in history.rows(table)} == keyed[table].keys()
        assert all(row.keys() == history.columns[table].keys() for row in history.rows(table))


def test_positions_only_ever_rise() -> None:
    history = History(7, ddl_every=3)
    places = [change.at for _ in range(40) for change in history.next() if change.op != "r"]
    assert places == sorted(places)


def _series(values: list[float]) -> Series:
    return Series("files", tuple(range(len(values))), tuple(values))


def test_what_rises_with_the_batches_is_called_growing() -> None:
    assert not _series([float(n) for n in range(100)]).is_bounded


def test_what_rises_once_and_then_goes_up_and_down_is_called_bounded() -> None:
    assert _series([min(n, 50) + n % 7 for n in range(200)]).is_bounded


@pytest.mark.parametrize("values", [[], [1.0], [0.0] * 9])
def test_of_nothing_nothing_is_said(values: list[float]) -> None:
    assert _series(values).growth == 0
