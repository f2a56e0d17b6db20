"""The job that is recorded: ``python -m tests.power.job LAKE ENGINE SEED BATCHES``.

Says before each batch and at the end how many are published, by making a folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ingest.job import spark_session
from ingest.testing.lake import Lake
from tests.power.history import SETTINGS, history
from tests.power.trace import MARK


def main() -> None:
    """See above."""
    folder, engine = Path(sys.argv[1]), sys.argv[2]
    drawn = history(int(sys.argv[3]), int(sys.argv[4]))
    session = spark_session.create(
        "power", master="local[2]", driver_memory="1g", conf={}, log=folder.parent / "job.log"
    )
    lake = Lake(session, folder, spark={"merge_engine": engine}, **SETTINGS)
    for number, records in enumerate(drawn.batches):
        (folder.parent / f"{MARK}{number}").mkdir()
        lake.replay(records, quarantine=True)
    (folder.parent / f"{MARK}{len(drawn.batches)}").mkdir()
    lake.close()
    session.stop()


if __name__ == "__main__":
    main()
