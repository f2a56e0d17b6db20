"""SIGTERM to a command that has started servers."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from ingest.local import process, terminated
from ingest.local.stack import Stack


def test_sigterm_is_an_end_that_reaches_each_finally_and_a_second_one_does_not_cut_it_short():
    program = (
        "import os, signal, time\nfrom ingest.local import terminated\n"
        "with terminated.as_exit():\n"
        "    try:\n        print('up', flush=True); time.sleep(60)\n"
        "    finally:\n        os.kill(os.getpid(), signal.SIGTERM); print('down', flush=True)\n"
    )
    running = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert running.stdout.readline() == "up\n"
    running.terminate()
    assert running.communicate(timeout=30)[0] == "down\n"
    assert running.returncode == 128 + signal.SIGTERM


def test_behind_it_the_signal_is_what_it_was_before():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit), terminated.as_exit():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_thread_that_cannot_take_signals_goes_on_without():
    done = []

    def work():
        with terminated.as_exit():
            done.append(1)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [1]


def test_a_guest_of_the_stack_ends_with_it_and_is_no_leftover_of_its_own(tmp_path):
    env = {**os.environ, process.GUEST_VARIABLE: str(tmp_path)}
    guest = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env=env)
    try:
        assert process.leftovers(tmp_path) == []
        assert [one.pid for one in process.leftovers(tmp_path, guests=True)] == [guest.pid]
        Stack.at(tmp_path).down()
        assert process.leftovers(tmp_path, guests=True) == []
    finally:
        guest.kill()
        guest.communicate()
