"""Which of the slow tests a run of `make test` takes: one in ten, others behind another commit, and always those of ``EACH_TIME``.

All of them take two hours on two cores, and what runs at each landing has half an hour, also on a machine that is less than half as fast as usual. So tests that need Spark or servers take turns,
by the commit: whoever runs the same commit again runs the same tests, and ten turns run each once. Unit tests and the docs'
run each time. ``make test-all`` runs everything that is not long.
"""

from __future__ import annotations

import subprocess
import zlib
from functools import cache
from pathlib import Path, PurePath

TURNS = 10
BY_CASE = ("tests/spark", "tests/conformance")
"""Folders whose tests take turns one by one: what they need is made once for all of them."""
BY_FILE = ("tests/integration", "tests/object_store", "tests/capability")
"""Folders of which a file's tests go together: much of its time is for what they share."""
EACH_TIME = (
    "tests/conformance/test_spark.py",
    "tests/integration/test_demo.py",
    "tests/integration/test_kills.py",
)
"""Files that say most of whether the whole works: the demo, kills, the laws on Spark."""


@cache
def turn_of(root: Path) -> int:
    """Of the commit that is checked out below ``root``; 0 where nobody can say."""
    asked = ["git", "-C", str(root), "rev-parse", "HEAD"]
    try:
        commit = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
        return int(commit[:8], 16) % TURNS
    except (OSError, subprocess.CalledProcessError, ValueError):
        return 0


def is_due(file: str, name: str, turn: int) -> bool:
    """Whether a test, by its file below the project's root and its name with parameters, runs in a turn."""
    folder = "/".join(PurePath(file).parts[:2])
    if file in EACH_TIME or folder not in (*BY_CASE, *BY_FILE):
        return True
    text = f"{file}::{name}" if folder in BY_CASE else file
    return zlib.crc32(text.encode()) % TURNS == turn
