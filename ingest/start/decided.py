"""What a start has decided so far of the manifest's row that it writes before it streams: a value. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from ingest.model import reasons
from ingest.model.gap import Gap
from ingest.model.manifest import Entry, HighWater, Place, TableState
from ingest.model.start_facts import StartFacts


@dataclass(frozen=True)
class Decided:
    """What is decided so far. ``offsets``: where each partition goes on; ``marks``, ``tables`` and ``gaps``: as the
    manifest is to have them. ``because``: sentences for a person, in the order of the decisions. ``resync``: tables to
    take again. ``restore``: tables (path) to bring to a published version first. ``batch``: the row's own number.
    ``by_hand``: tables that only a person has taken again.
    """

    batch: int
    offsets: Mapping[Place, int]
    marks: Mapping[Place, HighWater]
    tables: Mapping[str, TableState]
    gaps: tuple[Gap, ...]
    because: tuple[str, ...] = ()
    resync: tuple[str, ...] = ()
    restore: tuple[tuple[str, int], ...] = ()
    by_hand: frozenset[str] = frozenset()

    @classmethod
    def as_published(cls, newest: Entry, used: int = 0) -> Decided:
        """Nothing yet: as the manifest's newest row says. ``used``: the highest number of a batch that any table has a
        commit of; no number is used twice, so that it says for the life of the lake what such a commit holds.
        """
        tables, marks = dict(newest.tables), dict(newest.high_water)
        return cls(max(newest.batch_id, used) + 1, newest.ends, marks, tables, newest.gaps)

    def mark(self, place: Place) -> HighWater:
        """What of a partition is applied."""
        return self.marks.get(place, HighWater())

    def of_topic(self, topic: str) -> list[Place]:
        """Its partitions that were read before."""
        return [place for place in self.offsets if place[0] == topic]

    def reading_from(self, offsets: Mapping[Place, int]) -> Decided:
        """These partitions go on there."""
        return replace(self, offsets={**self.offsets, **offsets})

    def with_marks(self, marks: Mapping[Place, HighWater]) -> Decided:
        """What of these partitions is applied."""
        return replace(self, marks={**self.marks, **marks})

    def with_table(self, name: str, state: TableState) -> Decided:
        """A table is so."""
        return replace(self, tables={**self.tables, name: state})

    def standing_still(self, name: str, why: str) -> Decided:
        """A table of the manifest stays as it is, and its changes wait. Said once."""
        state = self.tables[name]
        if state.stopped == why:
            return self
        return self.with_table(name, replace(state, stopped=why, changes=0)).since(
            f"{name} stands still, the others go on: {why}"
        )

    def without_table(self, name: str) -> Decided:
        """The lake has no such table."""
        return replace(self, tables={n: s for n, s in self.tables.items() if n != name})

    def since(self, sentence: str) -> Decided:
        """Why, in words."""
        return replace(self, because=(*self.because, sentence))

    def taking_again(self, gaps: Iterable[Gap], untaken: Collection[str] = ()) -> Decided:
        """Gaps that are recorded and said, and whose tables are taken again, each once. Where only the topic is known,
        nothing can be, and the gap stays open; of a table that the pipeline file takes no more (``untaken``), or that only a
        person has taken again, nothing is asked for. Rows of an incremental snapshot that have come by now begin none any
        more: the one that closes such a gap begins with its own.
        """
        found = tuple(gaps)
        said = [f"{gap.table}: {gap.reason}; {self._and_then(gap, untaken)}" for gap in found]
        asked = dict.fromkeys(gap.table for gap in found if gap.of)
        tables = {n: replace(s, reread=None) if n in asked else s for n, s in self.tables.items()}
        return replace(
            self,
            tables=tables,
            gaps=(*self.gaps, *found),
            because=(*self.because, *said),
            resync=tuple(
                dict.fromkeys((*self.resync, *(n for n in asked if n not in self.by_hand)))
            ),
        )

    def as_entry(self, newest: Entry) -> Entry:
        """The manifest's row that says so, under its number."""
        return replace(
            newest,
            batch_id=self.batch,
            offsets={place: (end, end) for place, end in self.offsets.items()},
            high_water=self.marks,
            tables=self.tables,
            gaps=self.gaps,
        )

    def changes(self, newest: Entry) -> bool:
        """Whether the manifest does not say so already."""
        before = Decided.as_published(newest)
        now = replace(self, because=(), resync=(), restore=(), by_hand=before.by_hand)
        return now != before

    def _and_then(self, gap: Gap, untaken: Collection[str]) -> str:
        if gap.table in untaken:
            return "`source.tables` does not take the table, which stays as it is"
        if gap.table in self.by_hand:
            return reasons.BY_A_PERSON
        return "taking the table again" if gap.of else "which table that topic carries is not known"


def gap_of(
    facts: StartFacts, decided: Decided, table: str, place: Place, reason: str, *, end: int
) -> Gap:
    """What a table lacks of a partition, from where it goes on up to ``end``. ``table``: the topic's name where nobody
    knows which table it carries.
    """
    state = facts.newest.tables.get(table) if facts.newest else None
    known = [state.position if state else None, facts.pinned.get(table)]
    newest = max((position for position in known if position), default=None)
    at = decided.offsets.get(place, 0)
    return Gap(table, *place, at, end, reason, decided.batch, position=newest)
