"""Runs the applications; resumable where a ledger is given.

    python -m tests.applications [--ledger FILE] [--seed 20261124] [--rows 6] [--transactions 60] [NAME …]

Ends with exit code 1 when one differs. One whose package cannot be had is named and left out.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import traceback
from pathlib import Path

from ingest.job import spark_session
from ingest.local.stack import Stack
from tests.applications.applications import ALL
from tests.applications.drive import Drive
from tests.applications.packages import Unavailable
from tests.support.cold import CONF


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="all, when none is named")
    parser.add_argument("--ledger", type=Path, help="what has been run is not run again")
    parser.add_argument("--seed", type=int, default=20261124)
    parser.add_argument("--rows", type=int, default=6, help="for each table at first")
    parser.add_argument("--transactions", type=int, default=60)
    parser.add_argument("--keep", type=Path, help="a folder to work in, which stays")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the stack ends, too
    done = _done(given.ledger)
    left = [one for one in ALL if not given.names or one.name in given.names]
    left = [one for one in left if (one.name, given.seed) not in done]
    failed = skipped = 0
    with tempfile.TemporaryDirectory(prefix="ingest-applications-") as name:
        folder = given.keep or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        stack = Stack.at(folder / "stack")
        log = folder / "spark.log"
        try:
            stack.up({}, print)
            for one in left:
                # One each: what a session keeps of thousands of plans fills its memory in the end.
                spark = spark_session.create(
                    "audit", master="local[1]", driver_memory="1500m", conf=CONF, log=log
                )
                print(
                    f"{one.name} ({one.what}), {one.before} to {one.after}, seed {given.seed}",
                    flush=True,
                )
                drive = Drive(one, stack, folder / one.name, spark, given.seed)
                drive.rows, drive.transactions = given.rows, given.transactions
                drive.say = lambda said: print(f"  {said}", flush=True)
                try:
                    outcome = drive.run().as_json()
                except Unavailable as absent:
                    print(f"  NOT RUN: {absent}", flush=True)
                    skipped += 1
                    continue
                except Exception:  # noqa: BLE001  one that fails does not keep the others from running
                    traceback.print_exc()
                    failed += 1
                    continue
                finally:
                    spark.stop()
                print(f"  {json.dumps(outcome)}", flush=True)
                if given.ledger:
                    with given.ledger.open("a", encoding="utf-8") as ledger:
                        ledger.write(json.dumps(outcome) + "\n")
        finally:
            stack.down()
    equal = len(left) - failed - skipped
    print(f"{equal} equal, {failed} failed, {skipped} not run, {len(done)} done before")
    return 1 if failed else 0


def _done(ledger: Path | None) -> set[tuple[str, int]]:
    if ledger is None or not ledger.exists():
        return set()
    lines = map(json.loads, ledger.read_text(encoding="utf-8").splitlines())
    return {(line["application"], line["seed"]) for line in lines}


if __name__ == "__main__":
    sys.exit(main())
