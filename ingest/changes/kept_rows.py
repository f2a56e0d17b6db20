"""A table's plain changes of one batch that stay in Spark: pieces of Arrow's, which are opened where they are merged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ingest.changes.arrow_frames import mapped
from ingest.changes.dedup import within
from ingest.model.names import RESERVED_COLUMN, quoted
from ingest.model.position import Position
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
    """Of one table. ``frame``: ``layout int, rows binary`` of its pieces, computed once; ``schemas``: of the rows, by layout."""

    frame: DataFrame
    pieces: Sequence[KeptPiece]
    schemas: dict[int, StructType]

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

    def cut(self, steps: Sequence[Step]) -> list[StepPieces]:
        """Those of each step."""
        return [self._of(step, alone=len(steps) == 1) for step in steps]

    def _of(self, step: Step, *, alone: bool) -> StepPieces:
        mine = [
            piece
            for piece in self.pieces
            if piece.version.is_like(step.version) and any(_meet(one, step) for one in piece.spans)
        ]
        layouts = {piece.layout for piece in mine}
        frame = self.frame.filter(F.col("layout").isin(*layouts))
        schema = next((self.schemas[one] for one in layouts), StructType())
        where = (
            None if alone else within(F.col(f"{RESERVED_COLUMN}.position"), step.start, step.end)
        )
        size = sum(piece.bytes for piece in mine)
        read = sum(piece.bytes for piece in self.pieces if piece.layout in layouts)
        keys = _spanned([one.keys for one in mine])
        return StepPieces(step, frame, schema, where, size, read, keys)


@dataclass(frozen=True)
class StepPieces:
    """One step of them. ``where``: which rows are of it; None: all. ``bytes``: of pieces that have such; ``read``: of all that are opened
    to find them. ``keys``: numbers between which each key's first column is, where that is a whole number.
    """

    step: Step
    frame: DataFrame
    schema: StructType
    where: Column | None
    bytes: int
    read: int
    keys: tuple[int, int] | None
    rows: None = None
    """None of them is in the driver."""

    @property
    def pieces(self) -> StepPieces:
        """As other kinds of steps have none."""
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
        rows = mapped(self.frame.select("rows"), _opened, self.schema)
        if self.where is not None:
            rows = rows.filter(self.where)
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


def _opened(some: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in some:
        for body in batch.column(0):
            yield from opened(body.as_buffer()).to_batches()


def _meet(span: tuple[Position, Position], step: Step) -> bool:
    """Whether something between two positions may be the step's."""
    first, last = span
    return (step.start is None or last >= step.start) and (step.end is None or first < step.end)
