"""MERGEs by delta-rs in the driver's own process, in two modes: copy-on-write and merge-on-read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import pyarrow as pa
from deltalake.exceptions import DeltaError

from ingest.lake.delta.delta_rs_table import DeltaRsTable
from ingest.lake.delta.gone_files import refuse_gone
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.engines import collected_changes, copy_on_write, merge_on_read
from ingest.lake.engines.delta_rs_limits import (
    COPY_ON_WRITE,
    MERGE_ON_READ,
    may_mark,
    may_prune,
    refusal,
)
from ingest.lake.engines.engine import EngineJob, Merge
from ingest.lake.engines.engine_choice import Choice, MergeFacts
from ingest.lake.files import disk_failure
from ingest.model import reasons
from ingest.model.names import RESERVED_COLUMN, quoted_for_delta_rs

UNKNOWN_DATA = (DeltaError, pa.ArrowException, ValueError, LookupError, TypeError)
"""What delta-rs, Arrow and our own code around them raise at data that they do not know: a slow batch, not a stop. A
lost lease and another's commit are none of these, and a full disk, of which delta-rs tells by the same errors, is told apart."""


class DeltaRsEngine:
    """Works on tables that the job keeps open (``ReachedTables``)."""

    name: ClassVar[str] = COPY_ON_WRITE
    fits: ClassVar[str] = reasons.FITS.of()
    may_do_nothing: ClassVar[bool] = True

    def __init__(self, job: EngineJob) -> None:
        self._job = job

    @staticmethod
    def can(facts: MergeFacts) -> str | None:
        """See ``delta_rs_limits.refusal``."""
        return refusal(facts)

    def handle(self, table: SparkTable) -> DeltaRsTable | None:
        """The table by its log, which takes milliseconds where Spark's first look takes seconds."""
        return None if self._job.wanted == "spark" else self._job.reached.of(table)

    def look(self, table: SparkTable, facts: MergeFacts) -> MergeFacts:
        """Whether it is reached, what it asks of writers, and how large it is now."""
        direct = self.handle(table)
        if direct is None:
            return facts
        direct.version()
        size, rows = direct.size()
        return replace(
            facts, reachable=True, features=direct.features(), table_bytes=size, table_rows=rows
        )

    def merge(self, merge: Merge, facts: MergeFacts) -> Choice | None:
        """Merge-on-read where facts allow it and it pays, else copy-on-write. Raises :class:`FileGoneError`."""
        direct = self.handle(merge.table)
        assert direct is not None
        try:
            return self._merged(direct, merge, facts)
        except (DeltaError, FileNotFoundError):
            # Spark would seek it, too, and take seconds to say so, for which all tables wait.
            refuse_gone(direct.at, direct.state.files)
            raise

    def _merged(self, direct: DeltaRsTable, merge: Merge, facts: MergeFacts) -> Choice | None:
        if not merge.key:
            self._by_content(direct, merge)
            return None
        names, kinds = tuple(merge.key), tuple(merge.key.values())
        mine = merge.source.winners(names).select([*merge.columns, RESERVED_COLUMN])
        if may_mark(facts):
            always = facts.wanted == MERGE_ON_READ
            because = merge_on_read.mark(direct, merge.target, mine, names, always=always)
            if because is not None:
                return Choice(MERGE_ON_READ, because)
        prune = names if may_prune(kinds) else ()
        copy_on_write.rewrite(direct, merge.target, mine, names, prune)
        return None

    def unable(self, failure: Exception) -> str | None:
        """A row that is not there to be removed is Spark's to quarantine, data that is not known Spark's to write."""
        if isinstance(failure, collected_changes.AbsentError):
            return reasons.NOT_THERE.of()
        if isinstance(failure, UNKNOWN_DATA) and disk_failure.found(failure) is None:
            return reasons.COULD_NOT.of(words=str(failure)[:200])
        return None

    def _by_content(self, direct: DeltaRsTable, merge: Merge) -> None:
        found, op = merge.source.net.toArrow(), _unused("_op", merge.columns)
        if found.num_rows:
            held = direct.ordinals(found["content"].to_pylist())
            plan = merge.target.plan(merge.columns, (op,), quoted_for_delta_rs)
            direct.merge(collected_changes.numbered(found, held, op), plan, prune=())


def _unused(name: str, columns: Sequence[str]) -> str:
    """A name that no column has; letters' case does not tell names apart, and delta-rs takes no NUL in them."""
    taken = {column.lower() for column in columns}
    while name in taken:
        name = f"_{name}"
    return name
