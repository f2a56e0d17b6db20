"""The first process of a recipe: killed half-way, or said to have come to another end."""

import io
import threading
import time
from types import SimpleNamespace

import psutil
import pytest
from rich.console import Console

from ingest.model.errors import Exit, IngestError
from ingest.recipes.killed_job import all_reached, run_until_killed
from ingest.recipes.stage import Stage


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs a program as the first process of a recipe."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    stage = Stage(tmp_path, Console(file=io.StringIO(), width=200))

    def of(program, within=60.0):
        (tmp_path / "first_process.py").write_text(f"import os, signal, sys, time\n{program}\n")
        run_until_killed(stage, "first_process", within)

    return of


def test_a_process_that_kills_itself_half_way_has_done_what_it_should(run, tmp_path):
    run("open(sys.argv[1] + '/half', 'w'); os.kill(os.getpid(), signal.SIGKILL)")
    assert (tmp_path / "half").exists()


def test_one_that_ends_by_itself_is_said_with_its_last_words(run, tmp_path):
    with pytest.raises(IngestError, match="exit code 1 .*: ValueError: no such broker") as ended:
        run("raise ValueError('no such broker')")
    assert (ended.value.code, ended.value.exit_code) == ("E-RECIPE-KILL", Exit.FAILED)
    assert str(tmp_path / "killed.out") in ended.value.remedy


def test_one_that_does_not_come_half_way_is_not_waited_for_without_end_and_not_left_behind(
    run, tmp_path
):
    with pytest.raises(IngestError, match="did not come half-way within 2 s: it said nothing"):
        run("open(sys.argv[1] + '/pid', 'w').write(str(os.getpid())); time.sleep(600)", within=2.0)
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


def test_a_query_that_has_failed_is_not_waited_for():
    reached = threading.Semaphore(1)
    fine = SimpleNamespace(exception=lambda: None)
    failed = SimpleNamespace(exception=lambda: RuntimeError("no such file"))
    with pytest.raises(RuntimeError, match="no such file"):
        all_reached(reached, [fine, failed])


def test_queries_that_come_late_are_waited_for():
    reached = threading.Semaphore(0)

    def late():
        for _ in range(2):
            time.sleep(0.1)
            reached.release()

    threading.Thread(target=late).start()
    all_reached(reached, [SimpleNamespace(exception=lambda: None)] * 2)
