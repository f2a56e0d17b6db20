"""End to end on the whole real stack, both kills included: the demo itself."""

import re

import pytest

LONGEST = 1500
"""Seconds. It takes two or three minutes; beside a Spark cluster on a machine that was less than half as fast it was not done after ten."""


@pytest.mark.timeout(LONGEST + 60)
def test_the_demo_kills_job_and_worker_and_still_ends_in_the_proof(cli, tmp_path):
    done = cli("demo", "--home", str(tmp_path / "home"), "--seconds", "10", timeout=LONGEST)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    lines = done.stdout.strip().splitlines()
    assert re.fullmatch(r"PROOF lake = source: 8 tables, \d+ rows, 0 differences", lines[-1])
    # Each line is printed only after the process was seen to have died by SIGKILL with changes
    # that were not applied; the story refuses to go on otherwise.
    assert re.search(r"KILL 1 .* SIGKILL in mid-batch .*; [\d,]+ records not applied", done.stdout)
    assert re.search(r"KILL 2 .* SIGKILL in mid-stream; [\d,]+ transactions", done.stdout)
    peak = re.search(r"peak memory of all parts: ([\d.]+) GiB", done.stdout)
    assert peak
    assert float(peak.group(1)) < 6
