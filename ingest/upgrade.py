"""What an earlier commit of ours has left in a lake that today's code would not, and how it is brought over.

Contents of rows in tables without a key were hashed in another way (``multiset.content``): a change of such a row would
not find it. So they are made anew before the first batch, under the lease. What is to be done is read off the tables
themselves, so a crash in the middle is followed by the rest; that all is done stands in a file of the lake, and a start
that finds it looks only at tables that were restored since, which brings the old state back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ingest import multiset
from ingest.catalog import SchemaVersion
from ingest.commit import Committer, Identity
from ingest.config import Pipeline
from ingest.manifest import Entry, Gap
from ingest.mysql_types import Kind, column_type
from ingest.names import (
    INTERNAL_FOLDER,
    RESERVED_COLUMN,
    app_id,
    quoted,
    upgrade_path,
)
from ingest.ports import Schemas
from ingest.start_facts import LakeFacts, StartFacts
from ingest.storage import files_at
from ingest.table import Description, LakeTable
from ingest.topics import TableId

_DONE = "done.json"
_HASHED_ANEW = {"timestamp", "timestamp_ntz", "float", "double"}
"""Delta types of columns by which a row's content may be another one than before."""
_MILLISECONDS = 3
REASON = "rows that differ in microseconds alone were one row to an earlier version of ingest"
"""Why a table without a key is taken again."""


@dataclass
class Upgrade:
    """Of one pipeline's lake, in one run. ``takes_again``: whether the source lets tables be taken again."""

    session: SparkSession
    pipeline: Pipeline
    committer: Committer
    schemas: Schemas
    say: Callable[[str], None]
    takes_again: Callable[[], bool]
    _looked: set[tuple[str, int]] = field(default_factory=set)
    _hashed: set[str] = field(default_factory=set)
    _told: list[str] = field(default_factory=list)

    def put_right(self, facts: StartFacts) -> bool:
        """Contents of the lake's tables; returns whether anything was committed.

        Before a torn batch is finished: its changes look for rows by today's contents.
        """
        done, changed = self._is_done(), False
        for lake in facts.lake:
            restored = lake.foreign.version if lake.foreign else 0
            place = (lake.path, restored)
            if lake.version is None or place in self._looked or (done and not restored):
                continue
            changed = self._table(lake) or changed
            self._looked.add(place)
        return changed

    def entry(self, facts: StartFacts) -> Entry | None:
        """The manifest with a gap for each table that may hold a wrong row; None where it has them already.

        After a torn batch is finished, whose number a row of the manifest would take.
        """
        newest, done = facts.newest, self._is_done()
        if newest is None:
            return None
        found = list[Gap]()
        for lake in facts.lake:
            state = newest.tables.get(lake.name)
            if state is None or not (lake.name in self._hashed or not done):
                continue
            if not self._is_doubtful(lake) or any(_is_same(gap, lake.name) for gap in newest.gaps):
                continue
            topic = facts.topic_of[lake.name]
            at, since = newest.ends.get((topic, 0), 0), newest.batch_id + 1
            found.append(Gap(lake.name, topic, 0, at, at, REASON, since, position=state.position))
        if found and not self.takes_again():
            names = ", ".join(gap.table for gap in found)
            self._tell(f"{names} should be taken again with `ingest resync FILE --all`: {REASON}")
            return None
        for gap in found:
            self._tell(f"{gap.table} is taken again: {REASON}")
        return replace(newest, gaps=(*newest.gaps, *found)) if found else None

    def done(self) -> None:
        """All is brought over, which is said once and noted."""
        made = f"put right contents of {', '.join(sorted(self._hashed))}" if self._hashed else ""
        if said := "; ".join(filter(None, (made, *self._told))):
            self.say(f"this lake was filled by an earlier version of ingest: {said}")
        self._hashed, self._told = set(), []
        if not self._is_done():
            files_at(upgrade_path(self.pipeline.lake.path)).write(_DONE, '{"format": 2}\n')

    def _is_done(self) -> bool:
        return files_at(upgrade_path(self.pipeline.lake.path)).read(_DONE) is not None

    def _tell(self, sentence: str) -> None:
        if sentence not in self._told:
            self._told.append(sentence)

    def _table(self, lake: LakeFacts) -> bool:
        table = LakeTable(self.session, lake.path)
        ours = not lake.name.startswith(f"{INTERNAL_FOLDER}/")
        description = table.describe() if ours else None
        return bool(description and needs_hashing(description)) and self._contents(lake, table)

    def _contents(self, lake: LakeFacts, table: LakeTable) -> bool:
        """Rows whose content is not what today's code makes of them: the table is written anew."""
        rows = table.frame()
        fields = StructType([one for one in rows.schema.fields if one.name != RESERVED_COLUMN])
        row = F.struct(*[F.col(quoted(one.name)) for one in fields])
        held = F.col(f"{RESERVED_COLUMN}.content")
        if rows.filter(held != multiset.content(row, fields)).isEmpty():
            return False
        # A version of its own in each term: a restored table may have to be put right again.
        identity = Identity(self._app(lake.name, str(table.version())), 0, 1)
        self.committer.once(table, identity, table.number_anew)
        self._hashed.add(lake.name)
        return True

    def _app(self, name: str, version: str) -> str:
        return app_id(self.pipeline.name, f"upgrade-{version}", name, "upgrade")

    def _is_doubtful(self, lake: LakeFacts) -> bool:
        """True for a table without a key whose rows MySQL tells apart by microseconds."""
        description = LakeTable(self.session, lake.path).describe()
        table = TableId.parse(lake.name)
        if description is None or not description.multiset or self.pipeline.append_only(table):
            return False
        self.schemas.read_to_end()
        return has_microseconds(self.schemas.catalog.versions.get(table, ()))


def needs_hashing(held: Description) -> bool:
    """True for a table without a key in which a row's content may be another one than before."""
    return held.multiset and bool(_HASHED_ANEW & set(held.columns.values()))


def has_microseconds(versions: Iterable[SchemaVersion]) -> bool:
    """True when a table has, or had, a DATETIME or TIMESTAMP of more than three fraction digits."""
    return any(
        column_type(column).kind in (Kind.DATETIME, Kind.TIMESTAMP)
        and (column.length or 0) > _MILLISECONDS
        for version in versions
        for column in version.followed
    )


def _is_same(gap: Gap, table: str) -> bool:
    return gap.is_open and gap.table == table and gap.reason == REASON
