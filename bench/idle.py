"""What tables that stand still add to a batch: the same changes in a lake without them, and in one with them.

    PYTHONPATH=. .venv/bin/python -m bench.idle [--tables 10] [--idle 300] [--rows 50000] [--changes 100] [--rounds 5]

Each idle table has a row, its place in the manifest and a partition in Kafka. Interleaved in one run; ends with
an error when a table is not what the changes make of it.
"""

from __future__ import annotations

import time

from bench import result_file
from bench.contestants import Ingest
from bench.merges import parser_of, verify
from bench.spent import cpu_seconds, medians
from bench.stacks import fresh_spark
from bench.workload import Workload


def main() -> None:
    parser = parser_of(__doc__, tables=10, rows=50_000, changes=100)
    parser.add_argument("--idle", type=int, default=300)
    result_file.asks_for_json(parser)
    given = parser.parse_args()
    with fresh_spark() as (spark, folder):
        work = Workload(given.tables, given.rows, given.changes)
        still = Workload(given.idle, 0, 1, inserts=1.0, prefix="idle")
        for who in ("without", "with"):
            work.fill(spark, folder / who, ours=True)
        lakes = {
            "without": Ingest(spark, folder / "without", work),
            "with": Ingest(spark, folder / "with", work, still),
        }
        lakes["with"].take(still.batch(folder / "idle.parquet"), still.names)
        took: dict[str, list[tuple[float, float]]] = {who: [] for who in lakes}
        for number in range(given.warm + given.rounds):
            messages = work.batch(folder / f"batch{number}.parquet")
            for who in list(lakes)[:: 1 if number % 2 else -1]:
                wall, cpu = time.perf_counter(), cpu_seconds()
                lakes[who].take(messages, work.names)
                spent = time.perf_counter() - wall, cpu_seconds() - cpu
                print(
                    f"round {number}: {who:<8}{spent[0]:6.2f} s  cpu {spent[1]:6.2f} s", flush=True
                )
                took[who] += [spent] if number >= given.warm else []
        verify(work, {**lakes})
        verify(still, {"with": lakes["with"]})
        found = {who: medians(spent) for who, spent in took.items()}
        for who, (wall, cpu) in found.items():
            print(f"{who:<8}{given.idle} idle tables: {wall:.2f} s, cpu {cpu:.2f} s")
        print(f"{found['with'][0] / found['without'][0]:.3f} x in time")
        result_file.write(given, "idle", took=took)


if __name__ == "__main__":
    main()
