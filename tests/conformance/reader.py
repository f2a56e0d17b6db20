"""The reader in the driver alone, as something that the suite runs on: no Spark, no Delta.

Records come as the bytes that Debezium writes. What is read of them, winners picked, is applied to a plain dictionary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ingest.arrow.change_facts import before
from ingest.arrow.json_columns import Layout
from ingest.arrow.layouts import Layouts
from ingest.arrow.pieces import Before
from ingest.arrow.winning_rows import winners
from ingest.batch import arrow_reader
from ingest.batch.odd_records import OddRecords
from ingest.batch.plain_request import PlainRequest
from ingest.changes.row_images import RowSchema
from ingest.model.manifest import Entry, HighWater, Place, TableState
from ingest.model.names import RESERVED_COLUMN
from ingest.model.position import Position
from ingest.model.specification import Row
from ingest.schema.catalog import Catalog
from ingest.testing.lake import in_arrow
from tests.conformance.histories import History
from tests.conformance.shapes import found
from tests.conformance.targets import created, written_to
from tests.support import exact

POOL = ThreadPoolExecutor(1)
_TOPIC = "h.d.t0"
_BEGAN = datetime(2026, 1, 1, tzinfo=timezone.utc)
_PIECE = 700
"""Records that are brought at a time, so that long histories come in several pieces."""


class ReaderTarget:
    """One history of a table with a key."""

    def __init__(self, history: History) -> None:
        self._history = history
        catalog = Catalog()
        catalog.add(created("t0", history.snapshots[-1], history), 0, 0)
        (version,) = catalog.current()
        self._layout = Layout(version, RowSchema.of(version.columns, version.key))
        self._layouts = Layouts([version.position], [self._layout])
        self._ends = [0] * history.partitions
        self._high: dict[Place, Position] = {}
        self._floor: Position | None = None
        self._rows: dict[tuple[Any, ...], Row] = {}
        self.batches = 0

    def take(self, ends: list[int], crash: str | None = None) -> None:
        """One batch. Raises ``AssertionError`` where the reader leaves it to Spark."""
        self.batches += 1
        ranges = {(_TOPIC, p): (self._ends[p], end) for p, end in enumerate(ends)}
        before = Before.of(self._layouts, ranges, self._entry())
        asked = PlainRequest(self.batches, ranges, {_TOPIC: before}, {}, OddRecords())
        read, others = arrow_reader.read(self, asked, (), POOL)  # type: ignore[arg-type]
        assert not others, others
        self._ends = ends
        for table, facts in read.facts.items():
            for place, (position, _) in facts.high_water.items():
                self._high[place] = max(position, self._high.get(place, position))
            self._apply(read.rows[table].parts[0][1], max(facts.truncates, default=None))

    def _apply(self, rows: pa.Table, wiped: Position | None) -> None:
        if wiped:
            self._rows.clear()
            self._floor = wiped
            place = pc.struct_field(rows[RESERVED_COLUMN], "position")
            parts = pa.table(
                {field.name: pc.struct_field(place, field.name) for field in place.type}
            )
            rows = rows.filter(pc.invert(before(parts, wiped)))
        newest = winners(rows, self._layout.version.key)
        ops = pc.struct_field(newest[RESERVED_COLUMN], "op").to_pylist()
        for op, row in zip(ops, exact.rows(newest), strict=True):
            key = tuple(row[name] for name in self._layout.version.key)
            if op == "d":
                self._rows.pop(key, None)
            else:
                self._rows[key] = found(row)

    def settle(self) -> None:
        """All is delivered."""

    def content(self) -> Counter[Row]:
        return Counter(self._rows.values())

    def bring(
        self, ranges: Mapping[Place, tuple[int, int]], *_: object
    ) -> Iterator[dict[Place, pa.Table]]:
        """``Log.bring`` over the history."""
        for place, (start, end) in ranges.items():
            records = self._history.records[place[1]]
            for at in range(start, end, _PIECE):
                piece = records[at : min(end, at + _PIECE)]
                yield {place: in_arrow([written_to(_TOPIC, one) for one in piece], at)}

    def _entry(self) -> Entry:
        marks = {
            (_TOPIC, p): HighWater(end, self._high.get((_TOPIC, p)))
            for p, end in enumerate(self._ends)
        }
        state = TableState("", 0, floor=self._floor)
        return Entry(
            batch_id=self.batches,
            checkpoint_id="",
            offsets={},
            high_water=marks,
            tables={"d.t0": state},
            changes=0,
            rejects=0,
            position=None,
            source_time=None,
            schema_offset=0,
            started_at=_BEGAN,
            seconds=0,
        )
