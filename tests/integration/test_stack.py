"""The embedded stack: a dead part is seen, `up` mends it, nothing survives `down`."""

import json
import os
import signal

from ingest.local import process
from ingest.local.stack import Stack


def test_a_dead_part_is_seen_and_mended_and_nothing_survives_down(cli, tmp_path):
    home = tmp_path / "own"
    assert cli("local", "up", "--home", str(home)).returncode == 0
    first = Stack.at(home)
    os.kill(first.children["kafka"].pid, signal.SIGKILL)
    if dying := first.children["kafka"].process():
        dying.wait(10)
    status = cli("local", "status", "--home", str(home))
    assert status.returncode == 4
    assert "died" in status.stdout
    assert cli("local", "up", "--home", str(home)).returncode == 0
    second = Stack.at(home)
    assert second.ports == first.ports
    assert second.children["mysql"] == first.children["mysql"]
    assert second.children["kafka"] != first.children["kafka"]
    # A part that nobody remembers: as after a power cut in the middle of `up`.
    state = json.loads((home / "state.json").read_text())
    del state["children"]["mysql"]
    (home / "state.json").write_text(json.dumps(state))
    done = cli("local", "up", "--home", str(home))
    assert done.returncode == 0, done.stderr
    assert "leftover" in done.stderr
    assert cli("local", "down", "--home", str(home)).returncode == 0
    assert process.leftovers(home) == []
    assert cli("local", "reset", "--home", str(home)).returncode == 0
    assert not (home / "mysql").exists()
