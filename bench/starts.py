"""How long Spark takes to start: with the archive of its classes (`ingest.local.class_archive`), without, and with Java's
first compiler alone (`ingest.job.spark_session.SHORT`).

    .venv/bin/python -m bench.starts [--rounds 5]

Each start is a process of its own that creates a session and reads one row; the first one, which leaves the
archive behind, is not counted.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from bench import result_file
from bench.spent import Spent, by_command, medians

_START = """
import sys
from pathlib import Path
from ingest.job import spark_session
from ingest.local import class_archive
if sys.argv[1] == "without":
    class_archive.java_options = lambda program, jars: []
log = Path(sys.argv[2])
conf = spark_session.SHORT if sys.argv[1] == "short" else {}
spark = spark_session.create("start", master="local[2]", driver_memory="1g", conf=conf, log=log)
spark.range(1).collect()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    result_file.asks_for_json(parser)
    given = parser.parse_args()
    found: dict[str, list[Spent]] = {"with": [], "without": [], "short": []}
    with tempfile.TemporaryDirectory(prefix="ingest-starts-") as name:
        folder = Path(name)
        _start("with", folder)
        time.sleep(30)  # Java writes it after this process's end
        for number in range(given.rounds):
            for way in list(found)[:: 1 if number % 2 else -1]:
                found[way].append(_start(way, folder))
                print(f"round {number}: {way:<8}{found[way][-1].wall:6.2f} s", flush=True)
    for way, spent in found.items():
        wall, cpu = medians((one.wall, one.cpu) for one in spent)
        print(f"{way:<8}{wall:6.2f} s  cpu {cpu:6.2f} s")
    result_file.write(
        given, "starts", took={way: [vars(one) for one in of] for way, of in found.items()}
    )


def _start(way: str, folder: Path) -> Spent:
    return by_command([sys.executable, "-c", _START, way, str(folder / "spark.log")], folder)


if __name__ == "__main__":
    main()
