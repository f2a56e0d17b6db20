"""Filters of many values, by every reader: what one of them does not find that is there.

python -m tests.outside.filters --draws 20 --seed 1    # prints what each draw made, and every difference
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from deltalake import DeltaTable, QueryBuilder

from tests.outside import tables
from tests.outside.literals import datafusion
from tests.outside.packages import answers
from tests.outside.predicates import Predicate, drawn
from tests.outside.tables import Made

READERS = ("duckdb", "datafusion", "pyarrow", "polars")

OWN = {("pyarrow", "in", "float"), ("pyarrow", "in", "double")}
"""Where a reader compares otherwise than Python: to pyarrow's ``isin`` a zero with a minus is another number."""


def differences(made: Made, asked: Sequence[Predicate], readers: Iterable[str]) -> list[str]:
    """What a reader finds with files passed over and not without, or the other way round; or other than Python does."""
    readers, found = list(readers), list[str]()
    for reader, answer in zip(readers, answers(_asks(made, asked, readers)), strict=True):
        if "refused" in answer:
            found.append(f"{reader}: {answer['refused']}")
            continue
        for one, rows, right in zip(asked, answer["found"], answer["right"], strict=True):
            if rows is not None and rows != right:
                found.append(f"{reader}: {one} finds {rows}, not {right}")
            if right != one.right() and (reader, one.op, one.column.kind) not in OWN:
                found.append(f"{reader}: {one} is true of {right}, not of {one.right()}")
    return found


def refusals(made: Made, asked: Sequence[Predicate], readers: Sequence[str]) -> set[str]:
    """Readers that do not read this table at all."""
    told = answers(_asks(made, asked[:1], readers))
    return {reader for reader, one in zip(readers, told, strict=True) if "refused" in one}


def passed_over(path: Path, asked: Iterable[Predicate]) -> int:
    """For how many of them delta-rs opens fewer files than there are: its plan names those that it opens."""
    table = DeltaTable(path)
    session, every = QueryBuilder().register("t", table), len(table.file_uris())
    fewer = 0
    for one in asked:
        plan = session.execute(f"EXPLAIN SELECT id FROM t WHERE {datafusion(one.ask())}").read_all()
        opened = str(plan["plan"].to_pylist()).count(".parquet")
        fewer += opened < every
    return fewer


def _asks(
    made: Made, asked: Sequence[Predicate], readers: Iterable[str]
) -> list[dict[str, object]]:
    said = [one.ask(made.names.get(one.column.name)) for one in asked]
    return [{"path": str(made.path), "reader": one, "predicates": said} for one in readers]


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
