"""A table's plain changes of one batch that stay in Spark: pieces of Arrow's, which are opened where they are merged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from ingest.arrow.carried_rows import StepPart, of_parts
from ingest.arrow.change_log_rows import LogBatch, of_changes
from ingest.arrow.source_rows import unlogged
from ingest.changes.arrow_frames import mapped
from ingest.model.names import RESERVED_COLUMN, quoted
from ingest.model.position import Position
from ingest.schema.carried import Carry
from ingest.schema.catalog import SchemaVersion
from ingest.schema.steps import Step


@dataclass(frozen=True)
class KeptPiece:
    """``version``: one of those that it was read with; ``spans``: first and last positions of rows of one step each; ``keys``: see
    :class:`StepPieces`.
    """

    layout: int
    version: SchemaVersion
    spans: Sequence[tuple[Position, Position]]
    bytes: int
    keys: tuple[int, int] | None = None


@dataclass(frozen=True)
class KeptRows:
    """Of one table. ``frame``: ``layout int, rows binary`` of its pieces, computed once; ``types``: of the rows, by layout."""

    frame: DataFrame
    pieces: Sequence[KeptPiece]
    types: Mapping[int, pa.Schema]

    @property
    def nbytes(self) -> int:
        """Of all rows."""
        return sum(piece.bytes for piece in self.pieces)

    def fit(self, steps: Sequence[Step]) -> bool:
        """Whether each of them was read with the columns and the key of its step."""
        return all(
            piece.version.is_like(step.version)
            for piece in self.pieces
            for span in piece.spans
            for step in steps
            if _meet(span, step)
        )

    def cut(self, steps: Sequence[Step], carries: Sequence[Carry | None] = ()) -> list[StepPieces]:
        """Those of each step; such as are carried over DDLs with the step that they come to. ``carries``: see ``carried.between``."""
        found, first = list[StepPieces](), 0
        for number, step in enumerate(steps):
            if number < len(carries) and carries[number] is not None:
                found.append(self._of(step, [], []))
                continue
            run = steps[first : number + 1]
            over = [one for one in carries[first:number] if one is not None]
            found.append(self._of(step, run, over))
            first = number + 1
        return found

    def logged(self, fields: Mapping[int, Mapping[str, str]], log: LogBatch) -> DataFrame:
        """All of them as rows of the table's change log. ``fields``: by layout, as ``change_log_rows.of_changes`` has them."""
        made = partial(_logged, dict(fields), log)
        return mapped(self.frame.select("layout", "rows"), made, from_arrow_schema(log.schema))

    @property
    def versions(self) -> dict[int, SchemaVersion]:
        """By layout, one of the versions that its pieces were read with."""
        return {piece.layout: piece.version for piece in self.pieces}

    def _of(self, step: Step, run: Sequence[Step], over: Sequence[Carry]) -> StepPieces:
        """``run``: the steps whose rows are applied with this one, itself the last; ``over``: the DDLs between them."""
        mine, parts = dict[int, KeptPiece](), list[StepPart]()
        for number, one in enumerate(run):
            found = {
                index: piece
                for index, piece in enumerate(self.pieces)
                if piece.version.is_like(one.version)
                and any(_meet(span, one) for span in piece.spans)
            }
            layouts = frozenset(piece.layout for piece in found.values())
            if layouts:
                parts.append(StepPart(layouts, one.start, one.end, tuple(over[number:])))
            mine |= found
        layouts = frozenset[int]().union(*(part.layouts for part in parts))
        read = sum(piece.bytes for piece in self.pieces if piece.layout in layouts)
        size = sum(piece.bytes for piece in mine.values())
        keys = _spanned([piece.keys for piece in mine.values()])
        frame = self.frame.filter(F.col("layout").isin(*layouts))
        return StepPieces(step, frame, self._schema(parts), parts, size, read, keys)

    def _schema(self, parts: Sequence[StepPart]) -> StructType:
        """Of the rows of a step that is made of these."""
        if not parts:
            return StructType()
        layout = next(iter(parts[0].layouts))
        held = unlogged(self.types[layout].empty_table())
        return from_arrow_schema(parts[0].of(held).schema)


@dataclass(frozen=True)
class StepPieces:
    """The rows of one step that Spark's tasks keep. ``parts``: which rows of which pieces these are. ``bytes``: the size of the pieces that have some;
    ``read``: of all pieces that are opened to find them. ``keys``: the smallest and the largest value of the key's first column, where that is a whole number.
    """

    step: Step
    frame: DataFrame
    schema: StructType
    parts: Sequence[StepPart]
    bytes: int
    read: int
    keys: tuple[int, int] | None
    rows: None = None
    """None of them is in the driver."""

    @property
    def pieces(self) -> StepPieces:
        """Itself; of steps whose rows are elsewhere it is None."""
        return self

    @property
    def key(self) -> tuple[str, ...]:
        """The one in force."""
        return self.step.version.key

    @property
    def applicable(self) -> bool:
        """False when there is none."""
        return bool(self.bytes)

    def good(self) -> DataFrame:
        """All of them (``row_images.typed``, as far as a MERGE reads it)."""
        opened_there = partial(_opened, self.parts, self.schema.names)
        rows = mapped(self.frame.select("layout", "rows"), opened_there, self.schema)
        columns = [quoted(name) for name in self.schema.names if name != RESERVED_COLUMN]
        return rows.select(F.struct(*columns).alias("row"), f"{RESERVED_COLUMN}.*")


def _spanned(ranges: Sequence[tuple[int, int] | None]) -> tuple[int, int] | None:
    known = [one for one in ranges if one is not None]
    if not known or len(known) < len(ranges):
        return None
    return min(low for low, _ in known), max(high for _, high in known)


def opened(rows: pa.Buffer) -> pa.Table:
    """The source rows of a piece, from the stream that stands in its row."""
    with pa.ipc.open_stream(rows) as stream:
        return stream.read_all()


def each_opened(parts: Sequence[StepPart], some: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """What pieces (``layout int, rows binary``) have for a step that is made of these parts."""
    for layout, rows in _by_layout(some):
        yield from of_parts(parts, layout, rows)


def _by_layout(some: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each piece, with its layout."""
    for batch in some:
        for layout, body in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
            yield layout, opened(body.as_buffer())


def _opened(
    parts: Sequence[StepPart], names: Sequence[str], some: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for rows in each_opened(parts, some):
        yield from rows.select(names).to_batches()


def _logged(
    fields: Mapping[int, Mapping[str, str]],
    log: LogBatch,
    some: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    for layout, rows in _by_layout(some):
        yield from of_changes(rows, fields[layout], log).to_batches()


def _meet(span: tuple[Position, Position], step: Step) -> bool:
    """Whether something between two positions may be the step's."""
    first, last = span
    return (step.start is None or last >= step.start) and (step.end is None or first < step.end)
