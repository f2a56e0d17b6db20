"""Events of random lateness, in random windows, with kills: each pair of event and window is counted or late, and none is both.

    python -m tests.spark.flows.lateness --seeds 50 --events 200000

What is expected is computed plainly: by the watermarks that the offset log names, pair by pair.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.flows import flow_query, flow_runs
from ingest.job import spark_session
from ingest.model.failpoints import OF_FLOWS
from tests.support.flows import NOON, OneFlow, batches, dying, place, windows_of

BEGIN = int(NOON.timestamp())


def drawn(seed, events):
    """Files of events: (seconds since 1970, key); and the windows' length, slide, and the watermark's delay, in seconds."""
    rng = random.Random(seed)
    slide = rng.choice([60, 300, 600])
    length = slide * rng.choice([1, 1, 2, 3])
    delay = rng.choice([0, 60, 600])
    files, clock = [], 0.0
    sizes = [rng.random() for _ in range(rng.randint(4, 12))]
    for size in sizes:
        file = []
        for _ in range(int(events * size / sum(sizes))):
            clock += rng.random() * 7200 / events
            behind = rng.choice([0, 0, rng.random() * 2 * slide, rng.random() * 6000])
            file.append((int(BEGIN + clock - behind), rng.randrange(20)))
        files.append(file)
    files.append([(BEGIN + 10**6, 99)])  # by which all windows before it are closed
    return files, length, slide, delay, rng


def holds(spark, folder, seed, events, mode):
    """Run it, and compare. Returns how many pairs were counted, and how many came late."""
    files, length, slide, delay, rng = drawn(seed, events)
    window = f"window(at, '{length} seconds', '{slide} seconds')"
    text = f"SELECT {window} window, key, count(*) count FROM words GROUP BY {window}, key"
    words = {
        "format": "parquet",
        "columns": "at timestamp, key int",
        "watermark": f"{delay} seconds",
    }
    sinks = [{"delta": "out", "keys": ["window", "key"]}]
    flow = OneFlow(spark, folder, text, words=words, mode=mode, sinks=sinks)
    for number, file in enumerate(files):
        at = pa.array([moment * 1_000_000 for moment, _ in file], pa.timestamp("us", "UTC"))
        key = pa.array([key for _, key in file], pa.int32())
        part = flow.source / f".{number}"
        pq.write_table(pa.table({"at": at, "key": key}), part)
        place(part, flow.source / f"{number:05}.parquet", number)
    with ExitStack() as kills:
        kills.enter_context(patch.object(flow_runs, "PAUSE", 0.01))
        if rng.random() < 0.6:
            died_at = rng.choice(OF_FLOWS)
            kills.enter_context(
                patch.object(flow_query, "reached", dying(died_at, rng.choice([1, 2])))
            )
        flow.run()
    counted, late = Counter(), Counter()
    checkpoint = Path(flow.kept.checkpoint(flow.kept.record()))
    for number, watermark, names in batches(checkpoint):
        for name in names:
            for moment, key in files[int(name.split(".")[0])]:
                for start in windows_of(moment, length, slide):
                    if (start + length) * 1000 <= watermark:
                        late[number, start, moment, key] += 1
                    else:
                        counted[start, key] += 1
    # The last event's own windows stay open, which an append does not bring.
    wanted = {pair: n for pair, n in counted.items() if mode != "append" or pair[1] != 99}
    found = spark.read.format("delta").load(str(flow.folder / "lake" / "out"))
    rows = found.selectExpr("unix_timestamp(window.start) start", "key", "count").collect()
    assert len(rows) == len(wanted), (seed, len(rows), len(wanted))
    assert {(row.start, row.key): row["count"] for row in rows} == wanted, seed
    kept = Counter()
    if (Path(flow.kept.late) / "_delta_log").exists():
        rows = (
            spark.read.format("delta")
            .load(flow.kept.late)
            .selectExpr(
                "batch_id",
                "unix_timestamp(window.start) start",
                "unix_timestamp(event_time) at",
                "from_json(event, 'key int').key key",
                "unix_timestamp(window.end) - unix_timestamp(window.start) length",
            )
            .collect()
        )
        kept = Counter((row.batch_id, row.start, row.at, row.key) for row in rows)
        assert all(row.length == length for row in rows)
    assert kept == late, (seed, "late")
    pairs = sum(
        1 for file in files for moment, _ in file for _ in windows_of(moment, length, slide)
    )
    assert pairs == sum(counted.values()) + sum(kept.values())
    return sum(counted.values()), sum(kept.values())


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--seeds", type=int, default=50)
    options.add_argument("--first", type=int, default=0)
    options.add_argument("--events", type=int, default=200_000)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        spark = spark_session.create(
            "lateness", master="local[2]", driver_memory="2g", conf={}, log=root / "spark.log"
        )
        for seed in range(given.first, given.first + given.seeds):
            mode = ("append", "update")[seed % 2]
            counted, late = holds(spark, root / str(seed), seed, given.events, mode)
            print(f"seed {seed}: {mode}, {counted:,} pairs counted, {late:,} late", flush=True)
        print("all equal")


if __name__ == "__main__":
    main()
