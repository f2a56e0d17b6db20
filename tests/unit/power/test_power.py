"""How the recorded calls are read, and what a cut of power leaves of them."""

import random

import pytest

from tests.power.disk import Disk
from tests.power.remains import likeness
from tests.power.trace import Event, UnknownCallError, events


def hexed(text):
    return "".join(f"\\x{one:02x}" for one in text.encode())


def read(*lines):
    return list(events(lines, "/lake"))


def test_calls_of_threads_count_where_they_return():
    f, g = hexed("/lake/f"), hexed("/lake/g")
    assert read(
        f'1 openat(AT_FDCWD, "{f}", O_WRONLY|O_CREAT|O_TRUNC, 0666) = 3<{f}>',
        f'1 write(3<{f}>, "{hexed("ab")}", 2 <unfinished ...>',
        f"2 fsync(4<{g}>) = 0",
        f"2 fsync(5<{hexed('/lake')}>) = 0",
        "1 <... write resumed>) = 2",
        f'1 pwrite64(3<{f}>, "{hexed("c")}", 1, 1) = 1',
        f'2 link("{f}", "{g}") = -1 EEXIST (File exists)',
        f'2 rename("{f}", "{g}") = 0',
        f'2 unlinkat(5<{hexed("/lake")}>, "{hexed("g")}", 0) = 0',
        f'2 mkdir("{hexed("/near/mark-7")}", 0777) = 0',
    ) == [
        Event("make", "f"),
        Event("cut", "f"),
        Event("sync", "g"),
        Event("sync", ""),
        Event("write", "f", data=b"ab"),
        Event("write", "f", data=b"c", at=1),
        Event("rename", "f", "g"),
        Event("remove", "g"),
        Event("mark", "", data=b"7"),
    ]


def test_a_call_that_is_not_modelled_is_no_silence():
    with pytest.raises(UnknownCallError):
        read(f'1 rename("{hexed("/lake/f")}", "{hexed("/elsewhere")}") = 0')
    with pytest.raises(UnknownCallError):
        read(f"1 copy_file_range(3<{hexed('/a')}>, NULL, 4<{hexed('/lake/f')}>, NULL, 9, 0) = 9")


def after(way, *done, seed=1):
    disk = Disk()
    for event in done:
        disk.take(event)
    return disk.after(way, random.Random(seed))


WRITTEN = (Event("make", "f"), Event("write", "f", data=b"text"))


def test_what_was_not_synced_may_be_gone_and_a_synced_content_without_its_name_is():
    assert after("lost", *WRITTEN) == {}
    assert after("lost", *WRITTEN, Event("sync", "f")) == {}
    assert after("lost", *WRITTEN, Event("sync", "")) == {"f": b""}
    assert after("lost", *WRITTEN, Event("sync", "f"), Event("sync", "")) == {"f": b"text"}
    assert after("kept", *WRITTEN) == {"f": b"text"}


def test_a_rename_that_was_not_synced_leaves_the_old_name():
    named = (*WRITTEN, Event("sync", "f"), Event("sync", ""), Event("rename", "f", "g"))
    assert after("lost", *named) == {"f": b"text"}
    assert after("kept", *named) == {"g": b"text"}
    assert after("lost", *named, Event("sync", "")) == {"g": b"text"}


def test_a_file_below_a_folder_whose_name_is_lost_is_lost():
    done = (
        Event("folder", "d"),
        Event("make", "d/f"),
        Event("sync", "d/f"),
        Event("sync", "d"),
    )
    assert after("lost", *done) == {}
    assert after("lost", *done, Event("sync", "")) == {"d": None, "d/f": b""}


def test_by_lot_every_part_of_what_was_not_synced_can_be_there():
    found = {tuple(after("part", *WRITTEN, seed=seed).items()) for seed in range(50)}
    assert found == {(), (("f", b""),), (("f", b"te"),), (("f", b"text"),)}


def test_a_flush_keeps_all_that_anybody_has_written():
    done = (Event("folder", "d"), Event("make", "d/f"), Event("write", "d/f", data=b"text"))
    assert after("lost", *done, Event("flush", "")) == {"d": None, "d/f": b"text"}
    assert read("1 sync() = 0", f"1 syncfs(3<{hexed('/lake')}>) = 0") == [Event("flush", "")] * 2


def test_two_lakes_that_differ_in_what_nobody_looks_for_are_one_to_a_start(tmp_path):
    def lake(name, log='{"add":{"path":"named"}}\n', **files):
        table = tmp_path / name / "d" / "t"
        (table / "_delta_log").mkdir(parents=True)
        (table / "_delta_log" / f"{0:020d}.json").write_text(log)
        (table / "named").write_text("rows")
        for path, text in files.items():
            (table / path).write_text(text)
        return likeness(tmp_path / name)

    left = {f"_delta_log/{0:020d}.json#1": "half", "unnamed": "rows"}
    assert lake("one") == lake("another", **left)
    assert lake("one more") != lake("torn", log='{"add"')
    assert lake("and one") != lake("other rows", named="no")
    assert lake("the last") != lake("with a checkpoint", **{"_delta_log/_last_checkpoint": "{}"})
