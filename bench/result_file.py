"""A benchmark's figures as JSON, with what is needed to compare them: the commit and the machine."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import psutil

HERE = Path(__file__).parents[1]


def asks_for_json(parser: argparse.ArgumentParser) -> None:
    """The option that all of them share."""
    parser.add_argument("--json", type=Path, help="where to write the results")


def write(given: argparse.Namespace, bench: str, **found: Any) -> None:
    """Write what was asked for and what was found to ``--json``; nothing where it was not asked for."""
    if given.json is None:
        return
    asked = {name: one for name, one in vars(given).items() if name != "json"}
    facts = {
        **asked,
        "bench": bench,
        "commit": commit(),
        "machine": machine(),
        "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        **found,
    }
    given.json.write_text(json.dumps(facts, indent=1, default=str))


def commit() -> str:
    """The checkout's, with ``+`` where files differ from it; empty where there is no git."""
    words = ["git", "-C", str(HERE), "describe", "--always", "--abbrev=40", "--dirty=+"]
    try:
        done = subprocess.run(words, capture_output=True, text=True)
    except OSError:
        return ""
    return done.stdout.strip()


def machine() -> dict[str, Any]:
    """Processors, memory in bytes, operating system, Python."""
    return {
        "cpus": os.cpu_count(),
        "memory": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
    }
