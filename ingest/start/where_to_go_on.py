"""Where each topic goes on, and what is taken again: the manifest's row that a start writes before it streams.

A fold over values: it begins with what the manifest says, and each step returns it with one thing more decided. The
order of the steps is part of the decision. What a table holds comes first, since it sets topics back; then what a
policy lets go, which sets them back, too; and only then is it asked whether Kafka still has what is to be read. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ingest.model import reasons
from ingest.model.gap import Gap
from ingest.model.manifest import Entry, HighWater, Place
from ingest.model.start_facts import KafkaFacts, StartFacts
from ingest.start import ahead_of_manifest, going_back
from ingest.start.decided import Decided, gap_of


def where_to_go_on(facts: StartFacts, newest: Entry) -> Decided:
    """The whole of it, in the one order that is right (see above)."""
    used = ahead_of_manifest.newest_batch(facts)
    published = replace(Decided.as_published(newest, used), by_hand=facts.by_hand)
    named = _with_gaps_named(facts, published)
    as_they_are = _as_the_tables_are(facts, named)
    released = _released(facts, as_they_are)
    over_gaps = _over_gaps(facts, _over_beginnings_lost(facts, released))
    return _from_the_beginning(facts, over_gaps) if facts.from_beginning else over_gaps


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
    return {topic: name for name, topic in {**facts.taken, **facts.topic_of}.items()}


def _as_the_tables_are(facts: StartFacts, decided: Decided) -> Decided:
    """Back to what restored tables hold, and to the beginning for those that are gone from the lake; but those of them
    that the pipeline file does not take any more are forgotten: whoever has moved one away wants it gone.
    """
    for lake in facts.lake:
        topic = {**facts.taken, **facts.topic_of}.get(lake.name)
        known = lake.name in decided.tables
        if topic is None or not (known or lake.back):
            continue
        if known and lake.version is None and decided.tables[lake.name].was_never_made:
            continue
        if lake.version is None and lake.name in facts.untaken:
            # Where its topic was read up to stays: what Kafka still has of it is not applied again.
            decided = decided.without_table(lake.name).since(
                f"{lake.name} is gone from the lake, and `source.tables` does not take it any more: it is forgotten"
            )
        elif lake.version is None or lake.held is not None:
            decided = going_back.as_it_holds(facts, decided, lake, topic)
        elif ahead_of_manifest.is_ahead(facts, lake):  # and cannot be brought back
            decided = going_back.taken_again(facts, decided, lake, topic)
    return decided


def _released(facts: StartFacts, decided: Decided) -> Decided:
    """Let go on what a policy held or left out, and no longer does; table by table."""
    for name in decided.tables:
        topic, ignored = facts.topic_of.get(name, ""), facts.ignored.get(name, frozenset())
        if name not in facts.failed:
            decided = _try_again(decided, name, topic)
        decided = _excluded_while_read(facts, decided, name, topic)
        decided = _from_its_snapshot(decided, name, topic)
        if name not in facts.barred:
            decided = _let_go_on(decided, name, topic)
        if "add_column" not in ignored:
            decided = _with_columns_left_out(facts, decided, name, topic)
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


def _excluded_while_read(facts: StartFacts, decided: Decided, name: str, topic: str) -> Decided:
    """Of a table that the pipeline file takes no more in the middle of a snapshot. The connector does not end it, and streams: by that it
    would seem whole, and rows that had not been read yet would go.
    """
    state, pinned = decided.tables[name], facts.pinned.get(name)
    settles = pinned is not None and state.snapshot is not None and state.snapshot < pinned
    if name not in facts.untaken or not (state.hidden or settles):
        return decided
    reason = reasons.EXCLUDED
    if any(g.is_open and g.table == name and reason.is_in(g.reason) for g in decided.gaps):
        return decided
    at = decided.offsets.get((topic, 0), 0)
    gap = gap_of(facts, decided, name, (topic, 0), reason.says, end=at)
    return decided.taking_again([gap], facts.untaken)


def _from_its_snapshot(decided: Decided, name: str, topic: str) -> Decided:
    """A table without a key whose snapshot is not whole reads it again from where that begins, and waits for its end anew: so
    what Kafka has lost of it meanwhile is found out here, as of every other table.
    """
    state = decided.tables[name]
    if not state.hidden:
        return decided
    return (
        decided.with_table(name, replace(state, hidden=None))
        .since(
            f"{name}: its snapshot is looked at again from where it begins; until it is whole the table stays as it was"
        )
        .reading_from(_where_it_waits(decided, topic))
    )


def _where_it_waits(decided: Decided, topic: str) -> dict[Place, int]:
    """Where a table's changes begin that were left in Kafka."""
    places = decided.of_topic(topic)
    return {place: min(decided.offsets[place], decided.mark(place).offset) for place in places}


def _with_columns_left_out(facts: StartFacts, decided: Decided, name: str, topic: str) -> Decided:
    """Columns that a policy left out come into the lake; only MySQL has what existing rows hold there."""
    state = decided.tables[name]
    if not state.left_out:
        return decided
    reason = reasons.LEFT_OUT.of(columns=_listed(state.left_out))
    at = decided.offsets.get((topic, 0), 0)
    gap = gap_of(facts, decided, name, (topic, 0), reason, end=at)
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
    """Every topic is read from its first record that is still there; what is applied stays applied, and what is lost is
    a gap by now. That is what was asked for, so it is said first.
    """
    said = ("reading every topic again from its beginning", *decided.because)
    first = {
        place: facts.kafka[place].earliest if place in facts.kafka else 0
        for place in decided.offsets
    }
    return replace(decided, offsets=first, because=said)


def _over_beginnings_lost(facts: StartFacts, decided: Decided) -> Decided:
    """Forward over the beginning of topics that were never read, where Kafka no longer has it. Whose table nobody takes,
    or has, as one that was dropped, of that nothing is missing; but Spark has to be told to begin behind it.
    """
    names = _names(facts)
    new = {place: now.earliest for place, now in sorted(facts.kafka.items()) if now.earliest > 0}
    new = {place: onward for place, onward in new.items() if place not in decided.offsets}
    unknown = sorted({topic for topic, _ in new} - set(names))
    gaps = [
        gap_of(facts, decided, names[place[0]], place, reasons.RETENTION.says, end=onward)
        for place, onward in new.items()
        if place[0] in names
    ]
    said = [
        f"{topic}: its beginning is gone from Kafka; it is of no table that is taken"
        for topic in unknown
    ]
    decided = replace(decided, because=(*decided.because, *said))
    return decided.reading_from(new).taking_again(gaps)


def _over_gaps(facts: StartFacts, decided: Decided) -> Decided:
    """Forward over records that Kafka no longer has: never skipped in silence, each a gap whose table is taken again."""
    names = _names(facts)
    read = facts.newest.ends if facts.newest else {}
    lost = [
        (place, loss)
        for place, at in sorted(decided.offsets.items())
        if (loss := _loss(facts.kafka.get(place), at, read.get(place, 0), decided.mark(place)))
        and not (place not in facts.kafka and _is_told(decided, place, read.get(place, 0)))
    ]
    gaps = [
        gap_of(facts, decided, names.get(place[0], place[0]), place, loss.reason, end=loss.end)
        for place, loss in lost
    ]
    return (
        decided.reading_from({place: loss.onward for place, loss in lost})
        .with_marks({place: loss.marked(decided.mark(place)) for place, loss in lost})
        .taking_again(gaps, facts.untaken)
    )


def _is_told(decided: Decided, place: Place, read: int) -> bool:
    """Whether an open gap says that the topic was deleted, and nothing was read since: it would be told anew by each start, and
    each time a checkpoint be made for it. What may have come and gone unseen meanwhile the table lacks until it is taken again,
    too, and by a request of this start: one of before ends with it (``Streaming``).
    """
    mark = decided.mark(place)
    if decided.offsets[place] or read or mark.offset or mark.topic_id:
        return False
    deleted = (gap for gap in decided.gaps if reasons.TOPIC_DELETED.is_in(gap.reason))
    return any(gap.is_open and (gap.topic, gap.partition) == place for gap in deleted)


@dataclass(frozen=True)
class _Loss:
    """Records that are gone: why, up to where, and where the partition goes on. ``another_topic``: the id of the
    topic that stands there now (empty for none), when it is not the one that was read; ``ends_lower``: offsets from ``end`` on
    are given to other records now.
    """

    reason: str
    end: int
    onward: int
    another_topic: str | None = None
    ends_lower: bool = False

    def marked(self, mark: HighWater) -> HighWater:
        """What of the partition is applied: nothing of what gets an offset anew, which would be taken for sent again. Positions
        stay: what is sent again is still recognised.
        """
        if self.another_topic is not None:
            return replace(mark, offset=self.onward, topic_id=self.another_topic)
        return replace(mark, offset=min(mark.offset, self.end)) if self.ends_lower else mark


def _loss(now: KafkaFacts | None, at: int, read: int, mark: HighWater) -> _Loss | None:
    """``at``: where the partition would go on; ``read``: up to where it was read, which is further where changes wait there."""
    if now is None:
        return _Loss(reasons.TOPIC_DELETED.says, 0, 0, another_topic="")
    if mark.topic_id and now.topic_id and mark.topic_id != now.topic_id:
        return _Loss(reasons.TOPIC_MADE_AGAIN.says, 0, 0, another_topic=now.topic_id)
    if now.end < max(at, read):
        onward = max(min(at, now.end), now.earliest)
        return _Loss(reasons.END_LOST.says, now.end, onward, ends_lower=True)
    if now.earliest > at:
        return _Loss(reasons.RETENTION.says, now.earliest, now.earliest)
    return None
