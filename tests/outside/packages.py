"""DuckDB and Polars, from a lock of their own, beside the packages of .venv; and what readers say of filters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def installed(what: str = "readers") -> Path:
    """The folder of a lock's packages, once they are there."""
    lock, packages = ROOT / "requirements" / f"{what}.lock", ROOT / ".venv" / what
    stamp = packages / lock.name
    if not stamp.exists() or stamp.read_text() != lock.read_text():
        pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        to = ["--no-input", "--upgrade", "--target", str(packages)]
        subprocess.run([*pip, *to, "--require-hashes", "-r", str(lock)], check=True)
        stamp.write_text(lock.read_text())
    return packages


def answers(asks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What readers say, each ask as ``readers`` takes it. Raises ``RuntimeError`` with what its process said."""
    process = subprocess.run(
        [sys.executable, "-m", "tests.outside.readers"],
        cwd=ROOT,
        input=json.dumps(list(asks)),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": f"{installed()}{os.pathsep}{ROOT}"},
    )
    if process.returncode:
        raise RuntimeError(process.stderr)
    found: list[dict[str, Any]] = json.loads(process.stdout.splitlines()[-1])
    return found
