"""Where each topic goes on, and what is taken again: the manifest's row that a start writes before it streams.

A fold over values: it begins with what the manifest says, and each step returns it with one thing more decided. The
order of the steps is part of the decision. What a table holds comes first, since it sets topics back; then what a
policy lets go, which sets them back, too; and only then is it asked whether Kafka still has what is to be read. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ingest.model import reasons
from ingest.model.manifest import Entry, Gap, HighWater, Place, TableState
from ingest.model.start_facts import KafkaFacts, LakeFacts, StartFacts


@dataclass(frozen=True)
class Decided:
    """What is decided so far. ``offsets``: where each partition goes on; ``marks``, ``tables`` and ``gaps``: as the
    manifest is to have them. ``because``: sentences for a person, in the order of the decisions. ``resync``: tables to
    take again. ``restore``: tables (path) to bring to a published version first. ``batch``: the row's own number.
    """

    batch: int
    offsets: Mapping[Place, int]
    marks: Mapping[Place, HighWater]
    tables: Mapping[str, TableState]
    gaps: tuple[Gap, ...]
    because: tuple[str, ...] = ()
    resync: tuple[str, ...] = ()
    restore: tuple[tuple[str, int], ...] = ()

    @classmethod
    def as_published(cls, newest: Entry) -> Decided:
        """Nothing yet: as the manifest's newest row says."""
        tables, marks = dict(newest.tables), dict(newest.high_water)
        return cls(newest.batch_id + 1, newest.ends, marks, tables, newest.gaps)

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

    def without_table(self, name: str) -> Decided:
        """The lake has no such table."""
        return replace(self, tables={n: s for n, s in self.tables.items() if n != name})

    def since(self, sentence: str) -> Decided:
        """Why, in words."""
        return replace(self, because=(*self.because, sentence))

    def taking_again(self, gaps: Iterable[Gap]) -> Decided:
        """Gaps that are recorded and said, and whose tables are taken again, each once. Where only the topic is known,
        nothing can be, and the gap stays open.
        """
        found = tuple(gaps)
        said = [f"{gap.table}: {gap.reason}; {_and_then(gap)}" for gap in found]
        tables = dict.fromkeys((*self.resync, *(gap.table for gap in found if gap.of)))
        return replace(
            self,
            gaps=(*self.gaps, *found),
            because=(*self.because, *said),
            resync=tuple(tables),
        )

    def as_entry(self, newest: Entry) -> Entry:
        """The manifest's row that says so."""
        return replace(
            newest,
            offsets={place: (end, end) for place, end in self.offsets.items()},
            high_water=self.marks,
            tables=self.tables,
            gaps=self.gaps,
        )

    def changes(self, newest: Entry) -> bool:
        """Whether the manifest does not say so already."""
        before = Decided.as_published(newest)
        now = replace(self, because=(), resync=(), restore=())
        return now != before


def _and_then(gap: Gap) -> str:
    return "taking the table again" if gap.of else "which table that topic carries is not known"


def where_to_go_on(facts: StartFacts, newest: Entry) -> Decided:
    """The whole of it, in the one order that is right (see above)."""
    published = Decided.as_published(newest)
    named = _with_gaps_named(facts, published)
    as_they_are = _as_the_tables_are(facts, named)
    released = _released(facts, as_they_are)
    if facts.from_beginning:
        return _from_the_beginning(facts, released)
    return _over_gaps(facts, released)


def _with_gaps_named(facts: StartFacts, decided: Decided) -> Decided:
    """Open gaps that an earlier start knew by their topic alone get their table's name, so that it is taken again."""
    names = _names(facts)

    def is_named_now(gap: Gap) -> bool:
        return gap.is_open and gap.of is None and gap.topic in names

    kept = tuple(gap for gap in decided.gaps if not is_named_now(gap))
    named = [replace(gap, table=names[gap.topic]) for gap in decided.gaps if is_named_now(gap)]
    by_hand = tuple(gap for gap in named if gap.by_hand)
    mended = [gap for gap in named if not gap.by_hand]
    return replace(decided, gaps=(*kept, *by_hand)).taking_again(mended)


def _names(facts: StartFacts) -> dict[str, str]:
    """Topic to table name."""
    return {topic: name for name, topic in facts.topic_of.items()}


def _as_the_tables_are(facts: StartFacts, decided: Decided) -> Decided:
    """Back to what restored tables hold, and to the beginning for those that are gone from the lake; but those of them
    that the pipeline file does not take any more are forgotten: whoever has moved one away wants it gone.
    """
    for lake in facts.lake:
        topic = facts.topic_of.get(lake.name)
        stands = lake.version is not None and lake.foreign is None
        if stands or topic is None or lake.name not in decided.tables:
            continue
        then = _restored_entry(facts.history, lake) if lake.foreign else None
        if lake.version is None and lake.name in facts.untaken:
            # Where its topic was read up to stays: what Kafka still has of it is not applied again.
            decided = decided.without_table(lake.name).since(
                f"{lake.name} is gone from the lake, and `source.tables` does not take it any more: it is forgotten"
            )
        elif then is None:
            decided = _filled_again(decided, lake, topic)
        else:
            decided = _set_back(decided, lake, topic, then)
    return decided


def _filled_again(decided: Decided, lake: LakeFacts, topic: str) -> Decided:
    places = decided.of_topic(topic)
    return (
        decided.without_table(lake.name)
        .since(f"{lake.name} is gone from the lake; filling it again")
        .reading_from(dict.fromkeys(places, 0))
        .with_marks(dict.fromkeys(places, HighWater()))
    )


def _set_back(decided: Decided, lake: LakeFacts, topic: str, then: Entry) -> Decided:
    """To ``then``, the newest batch of which the restored table still holds all."""
    assert lake.foreign is not None
    places, state = decided.of_topic(topic), then.tables[lake.name]
    back = (
        decided.with_table(lake.name, replace(state, version=lake.version or 0, changes=0))
        .since(
            f"{lake.name} was restored to an older version; applying again what came after "
            f"batch {then.batch_id}"
        )
        .reading_from({place: then.ends.get(place, 0) for place in places})
        .with_marks({place: then.high_water.get(place, HighWater()) for place in places})
    )
    if state.version == lake.foreign.restored_to:
        return back
    return replace(back, restore=(*back.restore, (lake.path, state.version)))


def _restored_entry(history: Sequence[Entry], lake: LakeFacts) -> Entry | None:
    """The newest batch of which a restored table still holds all."""
    assert lake.foreign is not None
    to = lake.foreign.restored_to
    found = [
        entry
        for entry in history
        if lake.name in entry.tables and to is not None and entry.tables[lake.name].version <= to
    ]
    return max(found, key=lambda entry: entry.batch_id, default=None)


def _released(facts: StartFacts, decided: Decided) -> Decided:
    """Let go on what a policy held or left out, and no longer does; table by table."""
    for name in decided.tables:
        topic, ignored = facts.topic_of.get(name, ""), facts.ignored.get(name, frozenset())
        if name not in facts.failed:
            decided = _try_again(decided, name, topic)
        if name not in facts.barred:
            decided = _let_go_on(decided, name, topic)
        if "add_column" not in ignored:
            decided = _with_columns_left_out(decided, name, topic)
        if "drop_column" not in ignored:
            decided = _without_columns_kept(decided, name)
    return decided


def _let_go_on(decided: Decided, name: str, topic: str) -> Decided:
    """A paused table reads on from where its changes wait in Kafka."""
    state = decided.tables[name]
    if not state.paused:
        return decided
    return (
        decided.with_table(name, replace(state, paused=None, paused_by=""))
        .since(f"{name}: going on with what waited behind {state.paused_by[:100]!r}")
        .reading_from(_where_it_waits(decided, topic))
    )


def _try_again(decided: Decided, name: str, topic: str) -> Decided:
    """A table that stood still since a part of a batch could not be applied reads on from there: what was the reason may
    be mended by now.
    """
    state = decided.tables[name]
    if not state.stopped:
        return decided
    return (
        decided.with_table(name, replace(state, stopped=""))
        .since(f"{name}: trying again what could not be applied ({state.stopped})")
        .reading_from(_where_it_waits(decided, topic))
    )


def _where_it_waits(decided: Decided, topic: str) -> dict[Place, int]:
    """Where a table's changes begin that were left in Kafka."""
    places = decided.of_topic(topic)
    return {place: min(decided.offsets[place], decided.mark(place).offset) for place in places}


def _with_columns_left_out(decided: Decided, name: str, topic: str) -> Decided:
    """Columns that a policy left out come into the lake; only MySQL has what existing rows hold there."""
    state = decided.tables[name]
    if not state.left_out:
        return decided
    reason = reasons.LEFT_OUT.of(columns=_listed(state.left_out))
    at = decided.offsets.get((topic, 0), 0)
    gap = Gap(name, topic, 0, at, at, reason, decided.batch)
    return decided.with_table(name, replace(state, left_out=())).taking_again([gap])


def _without_columns_kept(decided: Decided, name: str) -> Decided:
    """Columns that a policy kept though the source has dropped them go."""
    state = decided.tables[name]
    if not state.kept:
        return decided
    said = f"{name}: the columns {_listed(state.kept)}, kept until now, go"
    return decided.with_table(name, replace(state, kept=())).since(said)


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(map(repr, columns))


def _from_the_beginning(facts: StartFacts, decided: Decided) -> Decided:
    """Every topic is read from its first record that is still there; what is applied stays applied. That is what was
    asked for, so it is said first.
    """
    said = ("reading every topic again from its beginning", *decided.because)
    first = {
        place: facts.kafka[place].earliest if place in facts.kafka else 0
        for place in decided.offsets
    }
    return replace(decided, offsets=first, because=said)


def _over_gaps(facts: StartFacts, decided: Decided) -> Decided:
    """Forward over records that Kafka no longer has: never skipped in silence, each a gap whose table is taken again."""
    names = _names(facts)
    lost = [
        (place, at, loss)
        for place, at in sorted(decided.offsets.items())
        if (loss := _loss(facts.kafka.get(place), at, decided.mark(place))) is not None
    ]
    return (
        decided.reading_from({place: loss.onward for place, _, loss in lost})
        # Positions stay: what is sent again is still recognised. Offsets of another topic are not comparable with
        # those of the old one.
        .with_marks(
            {
                place: replace(decided.mark(place), offset=loss.onward, topic_id=loss.another_topic)
                for place, _, loss in lost
                if loss.another_topic is not None
            }
        )
        .taking_again(
            Gap(names.get(topic, topic), topic, part, at, loss.onward, loss.reason, decided.batch)
            for (topic, part), at, loss in lost
        )
    )


@dataclass(frozen=True)
class _Loss:
    """Records that are gone: why, and where the partition goes on. ``another_topic``: the id of the
    topic that stands there now (empty for none), when it is not the one that was read.
    """

    reason: str
    onward: int
    another_topic: str | None = None


def _loss(now: KafkaFacts | None, at: int, mark: HighWater) -> _Loss | None:
    if now is None:
        return _Loss(reasons.TOPIC_DELETED.says, 0, another_topic="")
    if mark.topic_id and now.topic_id and mark.topic_id != now.topic_id:
        return _Loss(reasons.TOPIC_MADE_AGAIN.says, 0, another_topic=now.topic_id)
    if now.end < at:
        return _Loss(reasons.END_LOST.says, now.end)
    if now.earliest > at:
        return _Loss(reasons.RETENTION.says, now.earliest)
    return None
