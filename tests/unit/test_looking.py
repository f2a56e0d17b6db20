"""What tests of secrets look at: the command lines of processes that have ended by the time anybody asks."""

import subprocess
import sys
import uuid

import psutil

from tests.support.looking import Looking


def test_a_command_line_is_seen_of_a_process_that_is_gone_when_the_look_is_over():
    word, looks = uuid.uuid4().hex, []
    with Looking(lambda: looks.append(1)) as seen:
        subprocess.run([sys.executable, "-c", "import time; time.sleep(3)", word], check=True)
    assert [line for line in seen.lines if line.endswith(f" {word}")]
    assert looks
    assert not [
        one for one in psutil.process_iter(["cmdline"]) if word in (one.info["cmdline"] or ())
    ]
