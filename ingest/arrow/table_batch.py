"""One table of a batch, cut into steps, with its typed changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ingest.arrow.kept_rows import KeptRows, StepPieces
from ingest.arrow.source_rows import SourceRows
from ingest.changes import quarantine_rows, row_images
from ingest.changes.arrow_frames import frame_of
from ingest.changes.envelope import PLACE
from ingest.changes.kept_frames import free, keep
from ingest.changes.row_images import RowSchema
from ingest.model.gap import Gap
from ingest.model.manifest import LogState
from ingest.model.names import RESERVED_COLUMN, quoted
from ingest.model.position import Position
from ingest.model.start_facts import LogHeld
from ingest.schema.catalog import SchemaVersion
from ingest.schema.change_log import Control
from ingest.schema.steps import Step, TableFacts
from ingest.targets.target import Target

_BOTH_PLACES = (*PLACE, "position")


@dataclass
class StepBatch:
    """One step: the key in force (empty for none), and its changes: those of ``readable`` (``envelope.changes``)
    that are ``mine``, to be read with ``schema``.
    """

    step: Step
    key: tuple[str, ...]
    readable: DataFrame
    mine: Column
    schema: RowSchema
    applicable: bool = True
    """False when it is known that none of them can be applied, or that there is none."""
    logs: bool = False
    """Whether the table has a change log, which wants the row before an update, too."""
    every: DataFrame | None = None
    """Changes for the log, as ``readable``, where the table itself leaves some out; None where it takes all."""
    pieces: ClassVar[None] = None
    """None of them lies in Spark, read by Arrow."""
    rows: pa.Table | None = None
    """All of them as a MERGE's source rows, in the driver, when they were brought there."""
    _kept: DataFrame | None = None

    @property
    def changes(self) -> DataFrame:
        """The typed changes (``row_images.typed``), computed once."""
        if self._kept is None:
            mine = self.readable.filter(self.mine)
            by_content = not self.key
            frame = row_images.typed(
                mine, self.schema, with_before=self.logs or by_content, judged=by_content
            )
            frame = frame.drop("before", "after", "key_json")
            if self.key:  # raw bytes are wanted only of what goes to quarantine
                refused = F.col("reason").isNotNull()
                raw = {name: F.when(refused, F.col(name)) for name in ("key", "value")}
                frame = frame.withColumns(raw)
            self._kept = keep(frame)
        return self._kept

    def good(self) -> DataFrame:
        """Those that can be applied."""
        return self.changes.filter(F.col("reason").isNull())

    def logged(self) -> DataFrame:
        """Those that a change log gets."""
        if self.every is None:
            return self.good()
        frame = row_images.typed(self.every.filter(self.mine), self.schema, with_before=True)
        return frame.filter(F.col("reason").isNull())

    def leave_out(self, others: DataFrame) -> DataFrame:
        """Take those away that stand at the places of ``others``, in Kafka and in the source's log; returns what was kept before.
        Of what waited, records of a topic that was made again may stand at one place in Kafka.
        """
        before = self.changes
        self._kept = keep(quarantine_rows.without(before, others, _BOTH_PLACES))
        if self.every is not None:
            self.every = quarantine_rows.without(self.every, others, _BOTH_PLACES)
        self.rows = None
        return before

    def release(self) -> None:
        """Free what was kept."""
        if self._kept is not None:
            free(self._kept)


@dataclass
class StepRows:
    """One step of a table with a key whose changes were read in the driver; all of them can be applied."""

    step: Step
    key: tuple[str, ...]
    rows: pa.Table
    session: SparkSession
    pieces: ClassVar[None] = None

    @property
    def applicable(self) -> bool:
        """False when there is none."""
        return bool(self.rows.num_rows)

    def good(self) -> DataFrame:
        """All of them (``row_images.typed``, as far as a MERGE reads it), for tables that Spark writes."""
        frame = frame_of(self.rows, self.session)
        columns = [quoted(name) for name in self.rows.column_names if name != RESERVED_COLUMN]
        return frame.select(F.struct(*columns).alias("row"), f"{RESERVED_COLUMN}.*")


@dataclass(frozen=True)
class ForLog:
    """What a table's change log gets of a batch, beside the changes of its steps. ``rows``: these changes, where they were read by Arrow;
    ``versions``: definitions of which it has to hold the columns; ``controls``: what is no change of a row; ``first``: where the table's
    first snapshot was taken; ``known``: the log as it is published, None where it begins with this batch; ``applied``: the table's
    newest position of before, None for a new one; ``starts``: where the batch begins in each partition of the table's topic; ``held``: what
    the log holds behind it of the batch; ``lost``: where Kafka has lost the end of one of the topic's partitions.
    """

    rows: SourceRows | KeptRows | None
    versions: Sequence[SchemaVersion]
    controls: Sequence[Control]
    first: Position | None
    known: LogState | None
    applied: Position | None
    starts: Mapping[int, int]
    held: LogHeld
    lost: Sequence[Gap] = ()


@dataclass
class TableBatch:
    """One table of a batch, step by step: all of them read by Spark's columns, or all by Arrow. ``carried``: numbers of those whose changes
    are applied with a later one (``schema.carried``).
    """

    facts: TableFacts
    steps: list[StepBatch | StepRows | StepPieces]
    carried: tuple[int, ...] = ()
    log: ForLog | None = None
    """For the table's change log; None where it has none."""
    _spent: list[DataFrame] = field(default_factory=list)

    @property
    def read_by_spark(self) -> list[StepBatch]:
        """Its steps, unless they were read by Arrow."""
        return [one for one in self.steps if isinstance(one, StepBatch)]

    def know(self, good: Collection[int]) -> None:
        """Note which steps, by index, have changes that can be applied."""
        for index, one in enumerate(self.read_by_spark):
            one.applicable = index in good

    def rejects(self) -> list[DataFrame]:
        """Changes that do not fit their schema, one frame per step."""
        bad = F.col("reason").isNotNull()
        return [one.changes.filter(bad) for one in self.read_by_spark]

    def leave_out(self, others: DataFrame) -> None:
        """Take changes away that stand at the places of others."""
        self._spent += [one.leave_out(others) for one in self.read_by_spark]

    def release(self) -> None:
        """Free what was kept."""
        for frame in self._spent:
            free(frame)
        for one in self.read_by_spark:
            one.release()


def taken_in(changes: DataFrame, target: Target) -> DataFrame:
    """The changes, without those that the target ignores. Where the target refuses a change, ``reason`` says why."""
    reason = F.lit(None).cast("string")
    for operation, why in target.refused.items():
        reason = F.when(F.col("op") == operation, why).otherwise(reason)
    return changes.filter(~F.col("op").isin(*target.ignored)).withColumn("reason", reason)
