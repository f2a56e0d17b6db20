"""Two writers of one table in an object store, Spark's and delta-rs's: what was confirmed is there, once."""

import json
import subprocess
import sys

from tests.outside.packages import ROOT


def came_out(*said):
    done = subprocess.run(
        [sys.executable, "-m", "tests.object_store.two_writers", *said],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_no_commit_takes_another_s_place_however_they_meet_and_whatever_answer_is_lost():
    found = came_out("--rounds", "4", "--scenes", "held", "lost", "conflict", "by_deltas_own")
    for scene in ("held", "lost"):
        assert found[scene]["lost"] == found[scene]["twice"] == []
        assert found[scene]["refused"] == {}
    assert found["held"]["met"] >= 2
    # Refused beside another that is under way (409 of Amazon's), it is asked again, and not for ever.
    assert found["conflict"]["lost"] == found["conflict"]["twice"] == []
    assert found["conflict"]["refused"] == {"spark: Py4JJavaError": 1}
    assert (found["conflict"]["confirmed"], found["conflict"]["met"]) == (3, 1)
    # The same meeting with Delta's own log store: else nothing was met above.
    assert found["by_deltas_own"]["lost"]
