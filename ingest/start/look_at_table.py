"""One table of the lake as a start finds it: its version, what commits of ours it holds, and who else was there.

Its version alone says little. A folder may be an older copy, and a commit that changes no row (a fence, an upgrade) may
have brought it to the very version that it has lost since. So its own commits are asked, which cost one small file where all is
well, and the manifest's earlier rows where they do not say enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from ingest.config.pipeline_file import Pipeline
from ingest.lake.delta import other_writers, own_commits
from ingest.lake.delta.delta_log import TornCommitError, UnknownLogError
from ingest.lake.delta.delta_rs_table import within_reach
from ingest.lake.delta.other_writers import Since
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.delta.table_handle import TableHandle
from ingest.lake.files.hadoop_files import raise_if_passing
from ingest.lake.files.refused_alone import is_refused_alone
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.model.manifest import Entry, TableState
from ingest.model.names import INTERNAL_FOLDER, SOURCE_PROPERTIES, Marker, app_id_parts
from ingest.model.start_facts import Foreign, Held, LakeFacts


def look(
    table: SparkTable, name: str | None, pipeline: Pipeline, ledger: Ledger, newest: Entry | None
) -> LakeFacts | None:
    """None for what is none of our business. ``name``: where the manifest knows it; ``newest``: of ``ledger``."""
    if not table.exists():
        if name and table.folder is not None and table.folder.is_file():
            return LakeFacts(name, table.path, 0, unreadable="a file is where its folder should be")
        return LakeFacts(name, table.path, None) if name else None
    known = name is not None
    try:
        name = name or next(filter(None, map(table.property_of, SOURCE_PROPERTIES)), None)
        if name is None:
            return None  # somebody else's table below our root
        return _found(table, name, pipeline, ledger, newest)
    except TornCommitError as torn:
        if name is None:
            raise
        return LakeFacts(name, table.path, 0, torn=str(torn))
    except UNREADABLE as failure:
        if name is None or not known:
            raise
        return cannot_be_read(table, name, failure, pipeline.lake.path)


UNREADABLE = (DeltaError, PySparkException, Py4JJavaError, UnknownLogError)
"""What a look raises at a table that cannot be read, or cannot be reached."""


def cannot_be_read(table: SparkTable, name: str, failure: Exception, lake: str) -> LakeFacts:
    """Then nothing but the reason is known of it. Raises what may pass: of a table behind a disk or a server that fails nothing is known,
    and to move it away, which helps where it cannot be read, would lose what it has. What a store refuses of this table alone
    stops no other. ``lake``: its path.
    """
    if not is_refused_alone(failure, lake):
        raise_if_passing(table.path, failure)
    words = " ".join(str(failure).split())[:300]
    return LakeFacts(name, table.path, 0, unreadable=words.rstrip("."))


def _found(
    table: SparkTable, name: str, pipeline: Pipeline, ledger: Ledger, newest: Entry | None
) -> LakeFacts:
    # Without Spark where it can be: a hundred tables take two seconds, and minutes cold (docs/performance.md).
    log: TableHandle = within_reach(table, pipeline.lake.path) or table
    published = newest.batch_id if newest else 0
    state = newest.tables.get(name) if newest else None
    known, ours = state.version if state else -1, -1
    if name.startswith(f"{INTERNAL_FOLDER}/"):
        known = own_commits.newest_known(log, published)  # the manifest does not say
    happened = other_writers.since(log, known)
    if happened.foreign is not None:
        ours = own_commits.newest_after(log, known)
        if happened.foreign.restored_to is not None and ours > happened.foreign.version:
            # A start has decided upon it, and a batch came after that.
            happened = replace(happened, foreign=None)
    # Commits that the manifest knows are of batches that are published; only those after it say more.
    left = table.markers() if happened.markers is None else happened.markers
    markers = furthest(pipeline.name, left)
    beyond = any(marker.batch > published for marker in markers.values())
    found = LakeFacts(
        name,
        table.path,
        log.version(),
        log.id(),
        markers,
        happened.note,
        happened.foreign,
        known,
        ours,
        cleaned=beyond and own_commits.cleaned(log, known),
    )
    if newest is None or name.startswith(f"{INTERNAL_FOLDER}/"):
        return found
    return _Beside(log, name, ledger, newest, known).told(found, happened, beyond=beyond)


@dataclass(frozen=True)
class _Beside:
    """A table beside the manifest. ``newest``: its newest row; ``known``: the table's version there, -1 for none."""

    log: TableHandle
    name: str
    ledger: Ledger
    newest: Entry
    known: int

    def told(self, found: LakeFacts, happened: Since, *, beyond: bool) -> LakeFacts:
        """The same facts, with what the table holds where that is not what the manifest says."""
        version, foreign = found.version or 0, found.foreign
        restored_to = foreign.restored_to if foreign else None
        unlike = 0 <= self.known <= version and not self._is_as_published()
        back: Held | Foreign | None = None
        if version < self.known:
            back = own_commits.held(self.log, version)
        elif restored_to is not None and self.known >= 0:
            back = own_commits.held(self.log, restored_to)
        elif beyond or (foreign is not None and restored_to is None):
            pass  # what is beyond the manifest is finished or undone, another writer is refused
        elif unlike:
            back = own_commits.held(self.log, version)
        elif happened.note is not None:
            back = self._of_before(version)
        if isinstance(back, Foreign):
            return replace(found, foreign=back if foreign is None else foreign, unlike=unlike)
        return replace(found, back=back, unlike=unlike)

    def _is_as_published(self) -> bool:
        """Whether the commit of the version that the manifest knows is the one that it means, as far as the commit says:
        of a published batch; or, as a fence or an upgrade, of no later job than the one that wrote the row.
        """
        actions = own_commits.commit(self.log, self.known)
        batch = own_commits.batch_of(actions)
        if batch is not None:
            return batch <= self.newest.batch_id
        terms = [marker.term for marker in own_commits.markers(actions)]
        if not terms or max(terms) < self.newest.term:
            return True
        # Which row that is takes a search, and matters to the job alone that has written the newest one.
        return max(terms) == self.newest.term == self._first_row().term

    def _row(self, batch: int) -> TableState | None:
        """The table as the manifest has it after a batch, or the newest before that."""
        row = self.ledger.entries(1, below=batch + 1)
        return row[0].tables.get(self.name) if row else None

    def _first_row(self) -> Entry:
        """The manifest's row since which the table has had its version."""
        first = self.newest
        for row in self.ledger.back(self.newest.batch_id):
            state = row.tables.get(self.name)
            if state is None or state.version != self.known:
                break
            first = row
        return first

    def _of_before(self, version: int) -> Held | None:
        """What a table holds whose newest commit is of a published batch and not known: it is of before the table went
        back, or of before the manifest forgot it. One that the manifest has never seen is the trace of a batch that a
        crash ended, and nothing to go back to.
        """
        held = own_commits.held(self.log, version)
        if isinstance(held, Foreign) or not 0 < (held.batch or 0) <= self.newest.batch_id:
            return None
        state = self._row(held.batch or 0)
        return held if state is not None and state.version >= held.since else None


def furthest(pipeline: str, left: Mapping[str, int]) -> dict[tuple[str, str], Marker]:
    """(checkpoint id, role) to the marker of ours that is furthest on, whoever made it: in the quarantine several tables
    have one of each. ``left``: app id to ``txnVersion``.
    """
    found = dict[tuple[str, str], Marker]()
    for app, version in left.items():
        parts = app_id_parts(app)
        if parts and parts[0] == pipeline:
            of, marker = (parts[1], parts[3]), Marker.parse(version)
            found[of] = max(found.get(of, marker), marker, key=lambda one: one.place)
    return found
