"""What the recorded job applies: drawn changes of five tables, with every kind of commit among them. One is called such that its
folder has another name, with a percent sign: Spark alone merges into it.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ingest.testing.debezium import Record
from ingest.testing.drawn import write
from ingest.testing.lake import RecordLog
from ingest.testing.source import Source, Table

COLUMNS = {"id": "INT", "v": "VARCHAR(20)", "at": "DATETIME(6)"}
SETTINGS = {
    "tables": {"d.soft": {"deletes": "soft"}},
    **(
        {"defaults": {"targets": ["mirror", "change_log"]}} if os.environ.get("INGEST_LOGS") else {}
    ),
}
"""Of the pipeline file."""


@dataclass(frozen=True)
class History:
    """``batches``: the records of each; ``tables``: as they are in the end; ``broken``: records that nobody can read."""

    batches: list[list[Record]]
    tables: list[Table]
    broken: int

    @property
    def records(self) -> list[Record]:
        """All, in order."""
        return [record for batch in self.batches for record in batch]


def history(seed: int, batches: int) -> History:
    """The same for the same seed."""
    rng = random.Random(seed)
    source = Source()
    tables = [
        source.table("d.keyed", COLUMNS, ["id"]),
        source.table("d.soft", COLUMNS, ["id"]),
        source.table("d.bag", COLUMNS),
        source.table("d.quiet", COLUMNS, ["id"]),
        source.table("d._odd", COLUMNS, ["id"]),
    ]
    keyed, _, bag, quiet, odd = tables
    draws = {"id": lambda rng: rng.randrange(8)}
    cuts, broken = list[int](), 0
    for number in range(batches):
        for table in tables[:3]:
            write(rng, table, 4, draws)
        if number % 3 == 1:
            write(rng, odd, 2, draws)
        if number == batches // 3:
            keyed.add_column("extra", "INT")
            quiet.insert(id=1, v="once")
        if number == batches // 2:
            bag.truncate()
            write(rng, bag, 3, draws)
        if number == 2 * batches // 3:
            keyed.drop_column("at")
            write(rng, keyed, 2, draws)
        if number in (1, batches - 2):
            source.log.append(replace(source.log[-1], key=None, value=b'{"no": "change"}'))
            broken += 1
        cuts.append(len(source.log))
    parts = [source.log[a:b] for a, b in zip([0, *cuts], cuts, strict=False)]
    return History(parts, tables, broken)


def give(log: RecordLog, records: Sequence[Record]) -> None:
    """Records come to Kafka."""
    for record in records:
        if record.topic == "p":
            log.define(json.loads(record.value or b"{}"))
        else:
            log.add(record)
