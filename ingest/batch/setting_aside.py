"""What of a batch goes to quarantine before any table is touched, also where the batch was torn and is finished by other rules.

A batch that is done again by the same rules sets aside the same changes. But the pipeline file may be another one by then
(``epoch_dates``, ``append_only``), and so may our code. What the batch has set aside waits, and only a replay takes it in: it is left out of
the tables, whatever could be made of it today (``HeldBack.take``). What would be set aside only today is so under a further step, unless its
table holds something of the batch already. Then it holds the change, too, which would be applied twice, once by the replay:

- Of a table whose change log holds the batch nothing is left to do. The log comes last, and never goes back. The change stays where it is.
- Any other cannot be finished by today's rules. It is brought back to before the batch, and stands still until the next run begins its part anew.
"""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Executor
from dataclasses import dataclass, replace

from ingest.arrow.table_batch import TableBatch
from ingest.batch.record_reader import Reading
from ingest.batch.side_by_side import SideBySide
from ingest.batch.step_cutter import Cut
from ingest.batch.table_applier import Applier, Work
from ingest.batch.table_definitions import InForce
from ingest.lake.delta.commit import Identity
from ingest.lake.engines import collected_changes
from ingest.lake.quarantine.held_back import HeldBack, Of
from ingest.model.errors import Exit, IngestError
from ingest.model.manifest import Entry
from ingest.model.topics import TableId
from ingest.schema.catalog import Catalog


@dataclass(frozen=True)
class SettingAside:
    """Of one job. ``pool``: threads that changes are looked at in."""

    held: HeldBack
    applier: Applier
    tables: SideBySide
    pool: Executor

    def take(
        self, read: Reading, cut: Cut, seen: InForce, newest: Entry | None, identity: Identity
    ) -> tuple[Cut, int]:
        """Returns the tables' parts without what waits, those that cannot be finished among the failed ones; and how many changes of the
        batch are in quarantine. Raises why none of them can be gone on with, before anything is committed.
        """
        assert read.changes is not None
        assert read.fresh is not None
        others = [table for table in cut.tables if table.facts.table not in read.rows]
        collect = self.applier.collects
        bad = collected_changes.look(read.fresh, others, self.pool, collect=collect)
        failed = dict[TableId, IngestError]()

        def applied(found: Collection[Of]) -> list[Of]:
            begun = {of: self._begun(of, known, work) for of in found}
            for table in set().union(*begun.values()):
                if not self.applier.has_logged(table, work):
                    failed[table] = _otherwise(table, work.batch_id)
            self.tables.refuse_alone(_without(cut, failed), newest)
            return [of for of, tables in begun.items() if tables]

        work, known = Work.of(seen.note), _known(cut.tables, seen.catalog, newest)
        ranges = seen.note.ranges
        count = self.held.take(read.changes, others, bad, identity, ranges, applied)
        return _without(cut, failed), count

    def _begun(self, of: Of, known: Collection[TableId], work: Work) -> set[TableId]:
        """Tables that a change may be of, and that hold something of the batch. One of another table than its topic's was never applied."""
        topic, named = of
        owners = {one for one in known if self.applier.pipeline.topic(one) == topic}
        mine = owners if named is None else owners & {named}
        return {table for table in mine if self.applier.has_begun(table, work)}


def _known(tables: Collection[TableBatch], catalog: Catalog, newest: Entry | None) -> set[TableId]:
    """Also those of which nothing is readable today, or published yet."""
    published = map(TableId.parse, newest.tables if newest else ())
    return {*(one.facts.table for one in tables), *catalog.versions, *published}


def _without(cut: Cut, failed: dict[TableId, IngestError]) -> Cut:
    if not failed:
        return cut
    left = [one for one in cut.tables if one.facts.table not in failed]
    return replace(cut, tables=left, failed={**cut.failed, **failed})


def _otherwise(table: TableId, batch: int) -> IngestError:
    return IngestError(
        "E-TABLE-BEGUN",
        f"{table}: its part of batch {batch} was begun by other rules than today's, and holds changes that would go to quarantine now.",
        means="Since then the pipeline file, or the version of ingest, has become another one. Nothing is lost: the changes stay in Kafka.",
        remedy="nothing where other tables go on: this one is brought back to before the batch, and the next run begins its part anew. "
        "Of a pipeline of one table, run once with the file, or the version, of before",
        exit_code=Exit.FAILED,
    )
