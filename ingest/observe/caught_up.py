"""Up to which moment the lake holds all that the source had committed: true when idle, and when Debezium is stuck.

The newest change that was applied does not tell: on a quiet source it grows old while nothing is missing. Debezium's
heartbeat does not tell either: it carries the clock of the moment at which it was sent, also from within a backlog. So
the run makes marks of its own, each a moment of its own clock, and asks three things of each:

1. where MySQL's log ends (after the moment: whatever was committed before it stands below that end);
2. whether Connect has delivered all of that to Kafka, by its stored offset;
3. once it has, where Kafka's records end, and whether the lake holds all of these.

A mark that has all three is proven: the lake is caught up to its moment. Where any answer is missing (MySQL, Connect or
Kafka is away; Debezium says RUNNING and reads nothing) no mark is proven, the newest moment stands still, and the lag
grows. Nothing is ever claimed fresher than it was proven to be. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar

from ingest.model.manifest import Place
from ingest.model.topics import TableId

LOOK_EVERY = 5.0
"""Seconds between two looks: how exact a lag is. One costs a connection to MySQL, one to Connect, and one to Kafka."""
KNOWN_FOR = 3 * LOOK_EVERY
"""Seconds for which what a look has counted is taken for what there is."""

SHARE = 0.05
"""How coarse marks may become, as a share of their age: hours of a backlog need no mark each second."""

Ends = Mapping[Place, int]
Target = TypeVar("Target")


class _Moment(Protocol):
    @property
    def at(self) -> float: ...


_Mark = TypeVar("_Mark", bound=_Moment)


@dataclass(frozen=True)
class Asked(Generic[Target]):
    """At a moment (epoch seconds), MySQL's log ended at ``target`` or before."""

    at: float
    target: Target


@dataclass(frozen=True)
class Delivered:
    """Everything committed before a moment is in Kafka below ``ends``."""

    at: float
    ends: Ends


@dataclass(frozen=True)
class CaughtUp(Generic[Target]):
    """What is known so far, in epoch seconds. ``whole``: of all topics together; ``topics``: of each; None, or not
    there, until a first mark of this run is proven.
    """

    asked: tuple[Asked[Target], ...] = ()
    delivered: tuple[Delivered, ...] = ()
    whole: float | None = None
    topics: Mapping[str, float] = field(default_factory=dict)

    def ask(self, at: float, target: Target) -> CaughtUp[Target]:
        """MySQL was asked, after ``at``, where its log ends."""
        return replace(self, asked=thinned((*self.asked, Asked(at, target))))

    def arrive(self, is_delivered: Callable[[Target], bool], ends: Ends) -> CaughtUp[Target]:
        """Connect was asked what it has delivered, and then Kafka where its records end.

        Where Kafka has no topic at all no mark is proven: that nothing is missing there would hold of a pipeline, too, that
        looks for its topics by a name they do not have.
        """
        if not ends:
            return self
        newest = max((one.at for one in self.asked if is_delivered(one.target)), default=None)
        if newest is None:
            return self
        left = tuple(one for one in self.asked if one.at > newest)
        marks = thinned((*self.delivered, Delivered(newest, ends)))
        return replace(self, asked=left, delivered=marks)

    def apply(self, applied: Ends, ends: Ends, left_out: Collection[str] = ()) -> CaughtUp[Target]:
        """The lake holds everything below ``applied``; ``ends``: where Kafka's records ended, asked after that.

        A topic that ends before what was applied of it was made again: of its records nothing is known to be applied. Of those
        that are ``left_out`` the connector passes over changes, and its offset goes on all the same.
        """
        again = {place[0] for place, end in ends.items() if end < applied.get(place, 0)}
        names = {topic for topic, _ in (*ends, *applied)} - again - {*left_out}
        topics = dict(self.topics)
        for name in names:
            proven = _newest(self.delivered, applied, name)
            if proven is not None:
                topics[name] = max(proven, topics.get(name, proven))
        whole = self.whole
        proven = None if again or left_out else _newest(self.delivered, applied)
        if proven is not None:
            whole = proven if whole is None else max(whole, proven)
        left = tuple(one for one in self.delivered if whole is None or one.at >= whole)
        return replace(self, delivered=left, whole=whole, topics=topics)


def _newest(marks: Sequence[Delivered], applied: Ends, topic: str | None = None) -> float | None:
    """The newest mark of which the lake holds everything, of one topic or of all."""
    return max(
        (
            mark.at
            for mark in marks
            if all(
                applied.get(place, 0) >= end
                for place, end in mark.ends.items()
                if topic is None or place[0] == topic
            )
        ),
        default=None,
    )


def thinned(marks: tuple[_Mark, ...]) -> tuple[_Mark, ...]:
    """The same marks, oldest first, without those whose neighbours are close for their age. The oldest and the newest
    stay. What is left of a week, looked at each second, is less than 300.
    """
    now = marks[-1].at if marks else 0.0
    kept: list[_Mark] = []
    for index, mark in enumerate(marks):
        inner = 0 < index < len(marks) - 1
        if inner and marks[index + 1].at - kept[-1].at <= SHARE * (now - kept[-1].at):
            continue
        kept.append(mark)
    return tuple(kept)


@dataclass(frozen=True)
class TableLag:
    """``records``: in Kafka and not applied, None where the last look is long ago; ``caught_up``: epoch seconds, None while nothing is
    proven.
    """

    records: int | None
    caught_up: float | None


@dataclass(frozen=True)
class Progress:
    """The result of the newest look in which every question was answered. ``looked_at``, ``caught_up``: epoch seconds;
    ``undelivered``: MySQL's transactions that are not known to be in Kafka, None where they cannot be counted; ``left_out``: how many
    tables the connector leaves out; ``quarantined``: how many changes wait in quarantine.
    """

    looked_at: float | None = None
    caught_up: float | None = None
    tables: Mapping[str, TableLag] = field(default_factory=dict)
    undelivered: int | None = None
    left_out: int | None = None
    quarantined: int | None = None

    def counted(self, now: float) -> Progress:
        """What still holds at ``now``: counts of a look that is long ago may be any by now, and are none. A moment stays proven."""
        if self.looked_at is not None and now - self.looked_at <= KNOWN_FOR:
            return self
        moments = {name: TableLag(None, one.caught_up) for name, one in self.tables.items()}
        return Progress(self.looked_at, self.caught_up, moments)


def waiting(applied: Ends, ends: Ends) -> dict[str, int]:
    """How many records of each topic wait in Kafka. One that was made again, and so ends before what was applied, waits from
    its beginning.
    """
    found = {topic: 0 for topic, _ in ends}
    for place, end in ends.items():
        held = applied.get(place, 0)
        found[place[0]] += end - held if end >= held else end
    return found


def names(
    topics: Iterable[str], tables: Iterable[str], topic_of: Callable[[TableId], str], prefix: str
) -> dict[str, str]:
    """Topic to table, for people. ``tables``: those that the manifest knows, of which ``topic_of`` tells the topic; what else there is
    is called by its topic without the pipeline's ``prefix``, since a topic does not tell its table's name.
    """
    unknown = {topic: topic.removeprefix(prefix) for topic in topics}
    return unknown | {topic_of(TableId.parse(name)): name for name in tables}


def progress(
    found: CaughtUp[Target],
    applied: Ends,
    ends: Ends,
    named: Mapping[str, str],
    *,
    looked_at: float,
    undelivered: int | None,
    left_out: int | None = None,
    quarantined: int | None = None,
) -> Progress:
    """For people's tables: ``named`` by topic."""
    tables = {
        named.get(topic, topic): TableLag(count, found.topics.get(topic))
        for topic, count in sorted(waiting(applied, ends).items())
    }
    return Progress(looked_at, found.whole, tables, undelivered, left_out, quarantined)
