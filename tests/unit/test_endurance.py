"""`bench.endurance`: its history is the same each time, comes as a source would write it, and what grows is called so."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from bench.ageing_lake import Clock
from bench.endurance import CLOCK
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
    keyed = {one: dict[int, Row]() for one in ("orders", "stock", "carts", "prices")}
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


_MOVED = """
import sys, time
from pathlib import Path
from bench.ageing_lake import Clock

file, steps = Path(sys.argv[1]), Path(sys.argv[2])
since = time.time()
clock = Clock(steps, since, 12)
file.write_text("old")
written = file.stat().st_mtime
clock.after(1_000)
assert 12_000 <= time.time() - since < 12_300, "it is as late as after so many batches"
assert file.stat().st_mtime == written, "a file keeps its time"
clock.after(500)
assert time.time() - since >= 12_000, "it never goes back"
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_the_clock_goes_by_batches_and_files_keep_the_time_that_they_were_written_at(
    tmp_path: Path,
) -> None:
    library, steps = tmp_path / "moved.so", tmp_path / "steps"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(CLOCK), "-ldl"], check=True)
    Clock.create(steps, 10)
    env = {**os.environ, "LD_PRELOAD": str(library), "MOVED_CLOCK": str(steps)}
    words = [sys.executable, "-c", _MOVED, str(tmp_path / "file"), str(steps)]
    subprocess.run(words, env=env, check=True)


def _series(values: list[float]) -> Series:
    return Series("files", tuple(range(len(values))), tuple(values))


def test_what_rises_with_the_batches_is_called_growing() -> None:
    assert not _series([float(n) for n in range(100)]).is_bounded


def test_what_rises_once_and_then_goes_up_and_down_is_called_bounded() -> None:
    assert _series([min(n, 50) + n % 7 for n in range(200)]).is_bounded


@pytest.mark.parametrize("values", [[], [1.0], [0.0] * 9])
def test_of_nothing_nothing_is_said(values: list[float]) -> None:
    assert _series(values).growth == 0
