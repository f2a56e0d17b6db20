"""Lakes that earlier commits of ours have filled, kept as test data (tests/data/README.md), and starts of today's code on them."""

import tarfile
from dataclasses import dataclass
from pathlib import Path

from ingest.batch.micro_batch import Batches
from ingest.lake.delta.commit import Committer
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.local import tar
from ingest.model.position import Position
from ingest.model.start_facts import KafkaFacts
from ingest.model.topics import TableId
from ingest.source.resync import Requests
from ingest.start import gather_facts, upgrade
from ingest.start.repair import mended
from ingest.testing.debezium import schema_record
from ingest.testing.lake import RecordLog, pipeline_at
from tests.support.binlog import PlainLog

DATA = Path(__file__).parents[1] / "data"
KEYLESS = ("moments", "ratios", "days", "notes")
COLUMNS = {
    "exact": [("id", "BIGINT UNSIGNED", None), ("at", "DATETIME", 6), ("seen", "TIMESTAMP", 6)],
    "moments": [("n", "INT", None), ("at", "DATETIME", 6), ("seen", "TIMESTAMP", 6)],
    "ratios": [("n", "INT", None), ("single", "FLOAT", None), ("ratio", "DOUBLE", None)],
    "days": [("n", "INT", None), ("at", "DATETIME", None), ("note", "VARCHAR", 20)],
    "notes": [("n", "INT", None), ("note", "VARCHAR", 20)],
    "labels": [("id", "INT", None), ("kind", "ENUM", 1), ("tags", "SET", 3)],
}
KEYED = ("exact", "labels")
LABELS = {"ENUM": ["'a'", "'3D'"], "SET": ["'p'", "'q'"]}
"""Of columns in the binary character set."""


@dataclass
class Lake:
    """The unpacked lake, and starts of today's code on it."""

    spark: object
    path: Path
    takes_again: bool = True
    term: int = 10

    def table(self, name):
        return SparkTable(self.spark, str(self.path / "old" / name))

    def versions(self):
        return {name: self.table(name).version() for name in COLUMNS}

    def start(self):
        """Everything before the first batch; returns what it says."""
        self.term += 1
        told, log = [], RecordLog(self.spark)
        for name, columns in COLUMNS.items():
            log.catalog.add(_record(name, columns), 0, 0)
        newest = Ledger(str(self.path)).last()
        kafka = {
            place: KafkaFacts(0, end, newest.high_water[place].topic_id)
            for place, end in newest.ends.items()
        }
        pipeline = pipeline_at(self.path, "old")
        committer = Committer(self.term)
        batches = Batches(
            self.spark,
            pipeline,
            log=log,
            schemas=log,
            committer=committer,
            newest=newest,
            report=told.append,
            requests=Requests(pipeline),
            binlog=PlainLog(),
        )

        def look():
            committer.begin_anew()
            return gather_facts.gather(self.spark, pipeline, kafka)

        over = upgrade.Upgrade(
            self.spark, pipeline, committer, log, told.append, lambda: self.takes_again
        )
        try:
            mended(self.spark, batches, look, told.append, committer.refuse_lost, over)
        finally:
            batches.close()
        return [one for one in told if "earlier version" in one]

    def gaps(self):
        return sorted(gap.table for gap in Ledger(str(self.path)).last().gaps if gap.is_open)


def _record(table, columns):
    told = [
        {
            "name": name,
            "typeName": type_,
            "length": length,
            "optional": True,
            "charsetName": "binary" if type_ in LABELS else None,
            "enumValues": LABELS.get(type_),
        }
        for name, type_, length in columns
    ]
    key = ["id"] if table in KEYED else []
    return schema_record(TableId("old", table), Position(0, 1, 4), told, key)


def unpack(commit, folder):
    """Below a folder: `lake`, and `mysql.json` with what MySQL held then."""
    with tarfile.open(DATA / f"lake_{commit}.tar.gz") as archive:
        tar.unpack(archive, Path(folder))
    return folder
