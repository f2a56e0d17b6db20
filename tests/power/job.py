"""The job that is recorded: ``python -m tests.power.job LAKE ENGINE SEED BATCHES [--upkeep]``.

Says before each batch and at the end how many are published, by making a folder. Begun again after it was killed, it
goes on from what is in the lake. ``--upkeep``: after each batch tables are put in order and old versions removed, as soon as there are
any.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ingest.job import spark_session
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.maintenance import schedule, vacuum_times
from ingest.testing.lake import Lake, RecordLog
from tests.power.history import SETTINGS, give, history
from tests.power.trace import MARK
from tests.support.cold import CONF


def main() -> None:
    """See above."""
    asked = argparse.ArgumentParser()
    asked.add_argument("folder", type=Path)
    asked.add_argument("engine")
    asked.add_argument("seed", type=int)
    asked.add_argument("batches", type=int)
    asked.add_argument("--upkeep", action="store_true")
    given = asked.parse_args()
    drawn = history(given.seed, given.batches)
    session = spark_session.create(
        "power",
        master="local[2]",
        driver_memory="1g",
        conf=CONF,
        log=given.folder.parent / "job.log",
    )
    newest = Ledger(str(given.folder)).last()
    published, log = newest.batch_id if newest else 0, RecordLog(session)
    if published:
        for records in drawn.batches[: published + 1]:  # Kafka has what the job before was at
            give(log, records)
    settings = {"spark": {"merge_engine": given.engine}, **SETTINGS}
    lake = Lake(session, given.folder, log=log, **settings)
    published = lake.batches.newest.batch_id if lake.batches.newest else 0
    for number, records in enumerate(drawn.batches[published:], published):
        say_published(given.folder, number)
        lake.replay(records, quarantine=True)
        if given.upkeep:
            keep_up(lake)
    say_published(given.folder, len(drawn.batches))
    lake.close()
    session.stop()


def say_published(lake: Path, batches: int) -> None:
    """So many are."""
    (lake.parent / f"{MARK}{batches}").mkdir(exist_ok=True)


def keep_up(lake: Lake) -> None:
    """Of each table: whatever is due, when nothing has to wait for its time."""
    schedule.LOOK_EVERY, vacuum_times._AT_MOST_EVERY = 1, 0.0
    upkeep = lake.batches.upkeep.maintenance
    upkeep.hours, upkeep.versions = 0, 2
    for table in lake.batches._applier.opened:
        for _ in range(5):  # its duties, in turn
            upkeep.between_batches([table])
    failed = [one for one in upkeep.done() if one.what == "failed"]
    assert not failed, failed


if __name__ == "__main__":
    main()
