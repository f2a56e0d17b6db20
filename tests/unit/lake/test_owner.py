"""A lease's owner: found dead by what the kernel says of its process, which no clock moves."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.lake.files import owner as module
from ingest.lake.files.owner import Owner, Process, began, process

HERE = Owner("host", "boot pid:[1]", 10, 500)
linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")


@pytest.mark.parametrize(
    ("owner", "now", "gone"),
    [
        (HERE, Process(runs=True, ticks=500), False),
        (HERE, Process(runs=True, ticks=501), True),
        (HERE, Process(runs=True, ticks=None), False),
        (HERE, Process(runs=False), True),
        (replace(HERE, ticks=None), Process(runs=True, ticks=500), False),
        (replace(HERE, ticks=None), Process(runs=True), False),
        (replace(HERE, ticks=None), Process(runs=False), True),
    ],
)
def test_gone_is_who_has_no_process_or_one_that_began_at_another_tick(owner, now, gone):
    assert owner.is_surely_gone(HERE, now) is gone
    for elsewhere in (replace(HERE, host="other"), replace(HERE, boot="boot pid:[2]")):
        assert not owner.is_surely_gone(elsewhere, now), "its machine knows, not ours"


@given(
    st.binary().filter(lambda name: b"\0" not in name), st.integers(0, 2**63), st.binary(max_size=3)
)
def test_the_ticks_are_found_behind_any_command(name, ticks, end):
    between = b" ".join(b"%d" % number for number in range(18))
    rest = end.replace(b")", b"")  # only numbers come behind it
    assert began(b"7 (" + name + b") S " + between + b" %d 4096 " % ticks + rest) == ticks


@pytest.mark.parametrize("text", [b"", b"7 (a", b"7 (a) S 1 2", b"7 (a) S" + b" x" * 30])
def test_what_is_no_such_text_has_no_ticks(text):
    assert began(text) is None


@given(st.builds(Owner, st.text(), st.text(), st.integers(1, 2**22), st.none() | st.integers(0)))
def test_an_owner_is_read_as_it_was_written(owner):
    assert Owner.from_json(owner.as_json()) == owner


@given(st.text(max_size=90))
def test_no_text_fails_and_every_beginning_of_an_owner_s_is_nobody(text):
    Owner.from_json(text)
    whole = HERE.as_json()
    assert Owner.from_json(whole[: min(len(text), len(whole) - 1)]) is None


@linux
def test_a_later_process_has_later_ticks_whatever_it_is_called(tmp_path):
    odd = tmp_path / "x) R (1 2\n3"  # sixteen letters of it are the command
    odd.symlink_to(Path(sys.executable).resolve())
    children = [
        subprocess.Popen([str(odd), "-c", "input()"], stdin=subprocess.PIPE) for _ in range(2)
    ]
    try:
        ticks = [process(pid).ticks for pid in (os.getpid(), *(one.pid for one in children))]
        assert b"x) R (1 2" in Path(f"/proc/{children[0].pid}/comm").read_bytes()
        assert None not in ticks
        assert ticks == sorted(ticks)
        assert ticks[0] < ticks[1]
    finally:
        for one in children:
            one.kill()
            one.communicate()
    assert process(children[0].pid) == Process(runs=False)


def test_this_process_is_not_gone_and_one_that_had_its_id_before_is():
    here = Owner.this_process()
    now = process(here.pid)
    assert not here.is_surely_gone(here, now)
    before = replace(here, ticks=(here.ticks or 0) - 1)
    assert before.is_surely_gone(here, now) is (here.ticks is not None)


def test_who_may_not_be_signalled_is_there(monkeypatch):
    def refuse(pid, signal):
        raise PermissionError

    monkeypatch.setattr(module.os, "kill", refuse)
    assert process(2**22 + 1) == Process(runs=True, ticks=None)


@linux
def test_the_proc_of_another_space_of_process_ids_says_nothing(monkeypatch):
    monkeypatch.setattr(module.os, "getpid", lambda: 2**22 + 1)
    assert process(os.getppid()).ticks is None
