"""A child process of the stack: known again by what no clock moves."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from ingest.local.process import Child

linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")


@pytest.fixture
def child():
    running = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield Child.of("kafka", running.pid)
    running.kill()
    running.communicate()


@linux
@pytest.mark.parametrize("step", [-86_400, -2, 2, 86_400])
def test_a_child_is_known_after_the_clock_was_set(child, step, monkeypatch):
    real = psutil.Process.create_time
    monkeypatch.setattr(psutil.Process, "create_time", lambda self: real(self) + step)
    assert child.process().pid == child.pid


@linux
def test_another_process_of_the_same_id_is_not_the_child_though_it_began_at_the_same_second(child):
    assert replace(child, ticks=child.ticks - 1).process() is None
    assert replace(child, boot="another").process() is None


def test_a_child_that_an_earlier_version_wrote_down_is_known_by_its_time(child):
    old = {"part": "kafka", "pid": child.pid, "created": child.created}
    assert Child(**old).process().pid == child.pid
    assert Child(**{**old, "created": child.created - 2}).process() is None


def test_a_child_is_read_as_it_was_written_and_gone_when_it_has_ended(child):
    assert Child(**child.as_dict()) == child
    process = child.process()
    process.kill()
    process.wait(10)
    assert child.process() is None
    assert Child.of("me", os.getpid()).process() is not None
