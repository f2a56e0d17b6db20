"""A program of the tests in a process of its own: Spark has one session in each, and packages of others go no further."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from tests.outside.packages import ROOT


def came_out(module: str, *arguments: str, seconds: float | None = None, **env: str) -> Any:
    """What it prints last, which is JSON. ``env``: beside this process's."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        env={**os.environ, **env},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])
