"""The recipe of that name, in a process that has the packages of requirements/state.lock: prints its alerts as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rich.console import Console

from ingest.recipes import silence
from ingest.recipes.stage import stage


def main() -> None:
    with stage(Path(sys.argv[1]), Console(stderr=True)) as made:
        print(json.dumps(silence.show(made)))


if __name__ == "__main__":
    main()
