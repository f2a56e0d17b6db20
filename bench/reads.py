"""How long the driver takes to read one table's part of a batch: values, facts and a MERGE's source rows, by Arrow.

PYTHONPATH=. .venv/bin/python -m bench.reads [--changes 60] [--rounds 50]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq

from bench import result_file
from bench.workload import Workload, version
from ingest.arrow import change_facts, record_decoder
from ingest.arrow.json_columns import Layout
from ingest.changes.row_images import RowSchema


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=50)
    result_file.asks_for_json(parser)
    given = parser.parse_args()
    work = Workload(1, 50_000, given.changes)
    with tempfile.TemporaryDirectory() as folder:
        read = pq.read_table(work.batch(Path(folder) / "batch.parquet"))
    records = read.select(["offset", "value", "run"]).combine_chunks()
    of = version(work.names[0])
    layout = Layout(of, RowSchema.of(of.columns, of.key, "null"))
    took = []
    for _ in range(given.rounds):
        started = time.perf_counter()
        changes = record_decoder.decode(records, layout, 0)
        change_facts.refuse_old(changes.notes, None, None)
        change_facts.facts(changes.notes, ("b.d.t000", 0), layout)
        took.append(time.perf_counter() - started)
    print(f"{given.changes} changes of a table: median {statistics.median(took) * 1e3:.1f} ms")
    result_file.write(given, "reads", seconds=took)


if __name__ == "__main__":
    main()
