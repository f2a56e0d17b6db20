"""Each way, one after another; `--only`, `--list`, `--seconds`."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

from ingest.local.stack import Stack
from tests.poison import WAYS
from tests.poison.traffic import Fresh
from tests.poison.ward import SICK, STOPPING, Ward

SLOWER = 1.2
"""How much slower the others may become before it is called so."""
WARM = 20.0
"""Seconds after a start that do not count: Java compiles meanwhile."""


@dataclass
class Found:
    """What came of one way. ``told``: what was said of the ninth table, and where; ``ended``: why the job has, by itself."""

    way: str
    told: str = ""
    ended: str = ""
    before: Fresh | None = None
    meanwhile: Fresh | None = None
    unlike: str = "not repaired"
    """What is not equal after the repair."""

    @property
    def wrong(self) -> list[str]:
        """What must not be."""
        if self.way in STOPPING:
            named = SICK in self.ended and "what to do" in self.ended
            said = [] if named else [f"THE RUN DID NOT SAY WHERE AND WHY IT ENDED: {self.ended}"]
            return said + ([f"NOT EQUAL: {self.unlike}"] if self.unlike else [])
        said = [f"THE RUN ENDED: {self.ended}"] if self.ended else []
        if self.meanwhile and self.meanwhile.unseen:
            said.append(f"THE OTHERS STOOD STILL: {self.meanwhile.unseen} inserts were not seen")
        if not self.told:
            said.append("STATUS IS SILENT")
        return said + ([f"NOT EQUAL: {self.unlike}"] if self.unlike else [])

    def ratio(self, part: float) -> float:
        """How much slower the others were meanwhile."""
        if self.before is None or self.meanwhile is None or not self.before.ages:
            return 0.0
        return self.meanwhile.part(part) / self.before.part(part)

    def __str__(self) -> str:
        slower = " SLOWER" if self.ratio(0.5) > SLOWER else ""
        slower = " ALL STOP" if self.way in STOPPING else slower
        after = "NOT EQUAL" if self.unlike else "equal"
        return (
            f"{self.way:<24} {self.before!s:>16} {self.meanwhile!s:>16}  x {self.ratio(0.5):.2f} / "
            f"{self.ratio(0.99):.2f}{slower}  {after}\n    {(self.told or self.ended)[:500]}"
            + "".join(f"\n    {one[:1200]}" for one in self.wrong)
        )


def tried(name: str, ward: Ward, seconds: float) -> Found:
    """Undisturbed, poisoned, repaired."""
    found = Found(name)
    ward.write()
    ward.applied()
    time.sleep(WARM)
    begun = time.monotonic()
    found.before = ward.traffic.window(begun, begun + seconds)
    steps, begun = WAYS[name](ward), time.monotonic()
    next(steps)
    while time.monotonic() < begun + seconds / 2 and ward.runs():
        time.sleep(2)
    ward.write()
    found.meanwhile = ward.traffic.window(begun, begun + seconds)
    found.told = ward.told()
    if not ward.runs():
        found.ended = ward.last_words()
    next(steps, None)
    found.unlike = ward.equal()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--seconds", type=float, default=40, help="of each measurement")
    parser.add_argument("--rate", type=float, default=200, help="changes a second of all others")
    parser.add_argument("--seed", type=int, default=36)
    given = parser.parse_args()
    names = [name for name in WAYS if not given.only or name in given.only.split(",")]
    if given.list:
        print("\n".join(names))
        return
    print(f"seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="ingest-poison-") as home:
        stack = Stack.at(Path(home) / "stack")
        stack.up({}, print)
        try:
            found = all_of(names, stack, Path(home), given)
        finally:
            stack.down()
    print("\nmedian / 99 % of seconds from commit to readable, of the eight others")
    print(f"{'way':<24} {'before':>16} {'poisoned':>16}  ratios, after the repair, what was told")
    for one in found:
        print(one)
    sys.exit(any(one.wrong for one in found))


def all_of(names: list[str], stack: Stack, home: Path, given: argparse.Namespace) -> list[Found]:
    """One pipeline for all of them; another one behind a way that left something wrong."""
    found, ward = list[Found](), None
    try:
        for number, name in enumerate(names):
            one = Found(name)
            try:
                if ward is None:
                    ward = Ward(
                        stack,
                        home / f"poison{number}",
                        name=f"poison{number}",
                        rate=given.rate,
                        seed=given.seed,
                    )
                    ward.begin_all()
                one = tried(name, ward, given.seconds)
            except Exception as failure:  # noqa: BLE001  whatever it is, the other ways are tried
                traceback.print_exc()
                one.unlike = f"{type(failure).__name__}: {failure}"[:1000]
            print(one, flush=True)
            found.append(one)
            if one.wrong and ward is not None:
                print("\n".join((ward.folder / "job.log").read_text().splitlines()[-40:]))
                ward.close()
                ward = None
    finally:
        if ward is not None:
            ward.close()
    return found


if __name__ == "__main__":
    main()
