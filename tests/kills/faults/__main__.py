"""Each fault brought about for real, one after another; `--only`, `--list`."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from pathlib import Path

from ingest.local.stack import Stack
from tests.kills.faults import FAULTS
from tests.kills.faults.act import fresh, said
from tests.kills.lab import Lab


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    names = [name for name in FAULTS if not given.only or name in given.only.split(",")]
    if given.list:
        print("\n".join(names))
        return
    failed = []
    with tempfile.TemporaryDirectory(prefix="ingest-faults-") as home:
        stack = Stack.at(Path(home) / "stack")
        stack.up({}, print)
        lab = None
        try:
            for number, name in enumerate(names):
                started = time.monotonic()
                try:
                    name_ = f"faults{number}"
                    lab = lab or fresh(Lab(stack, Path(home) / name_, name=name_))
                    result = FAULTS[name](lab)
                except Exception as failure:
                    traceback.print_exc()
                    if lab is not None:
                        print(said(lab)[-1500:])
                        lab.close()
                        lab = None
                    result = f"FAILED: {type(failure).__name__}: {failure}"[:600]
                    failed.append(name)
                    stack.up({})
                print(f"{name:<26} {time.monotonic() - started:6.1f} s  {result}", flush=True)
        finally:
            if lab is not None:
                lab.close()
            stack.down()
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
