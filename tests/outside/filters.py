"""Filters of many values, by every reader: what one of them does not find that is there.

python -m tests.outside.filters --draws 20 --seed 1    # prints what each draw made, and every difference
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow.parquet as pq
from deltalake import DeltaTable

from tests.outside import tables
from tests.outside.packages import answers
from tests.outside.predicates import Predicate, drawn
from tests.outside.tables import Made

READERS = ("duckdb", "datafusion", "pyarrow", "polars")


def _its_own(reader: str, one: Predicate) -> bool:
    """Where a reader compares otherwise than Python: to pyarrow's ``isin`` a zero with a minus is another number. So it
    misses the zeros of a Parquet file that holds nothing else, whose bounds Parquet wants written as -0.0 and 0.0.
    """
    zeros = one.column.kind in {"float", "double"} and any(float(v) == 0 for v in one.values)
    return reader == "pyarrow" and one.op == "in" and zeros


def differences(made: Made, asked: Sequence[Predicate], readers: Iterable[str]) -> list[str]:
    """What a reader finds with files passed over and not without, or the other way round; or other than Python does."""
    readers, found = list(readers), list[str]()
    for reader, answer in zip(readers, answers(_asks(made, asked, readers)), strict=True):
        if "refused" in answer:
            found.append(f"{reader}: {answer['refused']}")
            continue
        for one, rows, right in zip(asked, answer["found"], answer["right"], strict=True):
            own = _its_own(reader, one)
            if rows is not None and rows != right and not own:
                found.append(f"{reader}: {one} finds {rows}, not {right}")
            if right != one.right() and not own:
                found.append(f"{reader}: {one} is true of {right}, not of {one.right()}")
    return found


def refusals(made: Made, asked: Sequence[Predicate], readers: Sequence[str]) -> set[str]:
    """Readers that do not read this table at all."""
    told = answers(_asks(made, asked[:1], readers))
    return {reader for reader, one in zip(readers, told, strict=True) if "refused" in one}


def passed_over(
    made: Made, asked: Sequence[Predicate], readers: Sequence[str], root: Path
) -> dict[str, set[str]]:
    """By reader: types by one of whose filters it passes a file over.

    A file is torn in a copy of the table, below ``root``: who has an answer has not opened it. Once each of two files;
    asked are those filters that no row of the torn one meets.
    """
    found: dict[str, set[str]] = {one: set() for one in readers}
    for number, (file, held) in enumerate(_files(made.path)):
        fitting = [one for one in asked if not held & {*one.right()}]
        copy = root / f"torn{number}"
        shutil.copytree(made.path, copy)
        torn = copy / file.relative_to(made.path)
        torn.write_bytes(bytes(torn.stat().st_size))
        asks = [{**ask, "torn": True} for ask in _asks(made, fitting, readers, copy)]
        for reader, answer in zip(readers, answers(asks), strict=True):
            told = zip(fitting, answer.get("answered", []), strict=False)
            found[reader] |= {one.column.mysql for one, answered in told if answered}
    return found


def _files(path: Path) -> list[tuple[Path, set[int]]]:
    """The live ones with the least and the greatest id among those that hold any value besides, each with its ids."""
    live = [path / one for one in DeltaTable(path).file_uris()]
    held = [(one, set(pq.read_table(one, columns=["id"])["id"].to_pylist())) for one in live]
    ordered = sorted(held, key=lambda one: min(one[1]))
    return [ordered[0], ordered[-2]]


def _asks(
    made: Made, asked: Sequence[Predicate], readers: Iterable[str], path: Path | None = None
) -> list[dict[str, object]]:
    said = [one.ask(made.names.get(one.column.name)) for one in asked]
    return [{"path": str(path or made.path), "reader": one, "predicates": said} for one in readers]


def main() -> int:
    """Draws tables and filters; returns how many differences there were, 1 at most."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--values", type=int, default=6, help="of each column, a draw")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    wrong = 0
    for seed in range(given.seed, given.seed + given.draws):
        chance = random.Random(seed)
        held = tables.columns(chance)
        asked = drawn(held, chance, given.values)
        marks = bool(seed % 2)
        readers = [one for one in READERS if not (marks and one == "pyarrow")]
        with tempfile.TemporaryDirectory() as root:
            made, lake = tables.direct(Path(root), held, marks=marks)
            found = differences(made, asked, readers)
            tables.compacted(lake)
            made.checkpoint()
            found += differences(made, asked, readers)
        wrong += len(found)
        print(
            f"seed {seed}: {len(asked)} filters, {len(readers)} readers, twice: {len(found)} differences",
            flush=True,
        )
        print(*found[:50], sep="\n")
    print(f"{given.draws} draws from seed {given.seed}: {wrong} differences")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
