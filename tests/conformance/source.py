"""A table at its source: statements are executed on a plain dictionary, and leave the log that Debezium would.

The truth is kept by executing each operation, never by reading what it left in the log.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from ingest.model.position import PART_DELETE, PART_WRITE, Position
from ingest.model.specification import Change, Operation, Row
from ingest.sample.values import Value
from tests.conformance.shapes import Contents

Values = dict[str, Value]
"""Of the columns outside of the key; never changed in place."""


@dataclass
class Truth:
    """The content after each streamed position that ends a change, and after the snapshot."""

    begins: Position = field(default=Position(0, 0, 0))
    content: Counter[Row] = field(default_factory=Counter)
    moves: list[tuple[Position, list[tuple[Row, int]]]] = field(default_factory=list)
    """Per position, how many copies of which rows came or went."""

    def items(self) -> Iterator[tuple[Position, Counter[Row]]]:
        content = Counter(self.content)
        yield self.begins, Counter(content)
        for position, moved in self.moves:
            _move(content, moved)
            yield position, Counter(content)

    def __getitem__(self, wanted: Position) -> Counter[Row]:
        content = Counter(self.content)
        for position, moved in self.moves:
            if position > wanted:
                break
            _move(content, moved)
        return content


def _move(content: Counter[Row], moved: list[tuple[Row, int]]) -> None:
    for row, copies in moved:
        content[row] += copies
        if not content[row]:
            del content[row]


class Source:
    """The table, and the log that writing to it leaves."""

    def __init__(self, contents: Contents, rng: random.Random) -> None:
        self.contents, self.rng = contents, rng
        self.rows: dict[int, Values] = {}
        """By which of the keys."""
        self.bag: Counter[Row] = Counter()
        self.file, self.pos, self.transaction = 1, 4, 0
        self.log: list[tuple[Change, int]] = []
        self.operations = 0
        self.truth = Truth()
        self._copies: list[Row] = (
            [contents.row(None, self.drawn_values()) for _ in range(3)] if not contents.keys else []
        )
        self._copies += [self._neighbour(one) for one in self._copies]

    def begin(self, snapshot: Position) -> None:
        """What follows is the stream."""
        self.log.clear()
        self.operations = 0
        self.truth = Truth(snapshot, self.content())

    def content(self) -> Counter[Row]:
        if self.contents.keys:
            return Counter(self.contents.row(key, values) for key, values in self.rows.items())
        return +self.bag

    def held(self) -> list[tuple[Row | None, Row]]:
        """Each row with its key, as a snapshot reads them."""
        if self.contents.keys:
            rows = sorted(self.rows.items(), key=lambda one: one[0])
            return [(self.contents.key(key), self.contents.row(key, one)) for key, one in rows]
        return [(None, row) for row in sorted(self.bag.elements())]

    def now(self) -> Position:
        return Position(0, self.file, self.pos, 0, 0)

    def tick(self, *, rotate: bool = False) -> None:
        self.pos += 100
        if rotate:
            self.file, self.pos = self.file + 1, 4

    def transact(self, most: int = 40) -> None:
        """A transaction: of one to three operations, seldom of many. ``most``: that change something."""
        self.transaction += 1
        count = self.rng.randint(10, 40) if self.rng.random() < 0.05 else self.rng.randint(1, 3)
        for _ in range(min(count, most)):
            before = len(self.log)
            _operate(self)
            self.operations += len(self.log) > before

    def _write(
        self,
        operation: Operation,
        key: int | None,
        before: Row | None,
        after: Row | None,
        line: int = 0,
    ) -> None:
        part = PART_DELETE if operation == "delete" else PART_WRITE
        position = Position(0, self.file, self.pos, line, part)
        named = None if key is None else self.contents.key(key)
        self.log.append((Change(operation, position, named, before, after), self.transaction))
        moved = [(row, by) for row, by in ((before, -1), (after, 1)) if row is not None]
        self.truth.moves.append((position, moved))

    def drawn_values(self) -> Values:
        """One of each column's."""
        return {name: self.rng.choice(some) for name, some in self.contents.values.items()}

    def _neighbour(self, row: Row) -> Row:
        """The same but for one column."""
        name = self.rng.choice(list(self.contents.values))
        other = self.rng.choice(self.contents.values[name])
        return tuple((each, other if each == name else value) for each, value in row)

    # --- statements; each keeps the truth first and then says what Debezium writes of it ---------

    def put(self, key: int, values: Values) -> None:
        """INSERT … ON DUPLICATE KEY UPDATE; REPLACE on a key hit is the same single update."""
        held = self.rows.get(key)
        if held == values:
            return  # MySQL writes nothing for an update that changes nothing
        self.rows[key] = values
        self.tick()
        before = None if held is None else self.contents.row(key, held)
        after = self.contents.row(key, values)
        self._write("insert" if held is None else "update", key, before, after)

    def touch(self, key: int) -> None:
        """One column of a row becomes another, if it is only in a microsecond."""
        if key in self.rows:
            name = self.rng.choice(list(self.contents.values))
            self.put(key, {**self.rows[key], name: self.rng.choice(self.contents.values[name])})

    def remove(self, key: int) -> None:
        if key in self.rows:
            values = self.rows.pop(key)
            self.tick()
            self._write("delete", key, self.contents.row(key, values), None)

    def rename(self, old: int, new: int, line: int = 0) -> None:
        """A primary-key change: two records that share their position but for the part."""
        values = self.rows.pop(old)
        if line == 0:
            self.tick()
        self._write("delete", old, self.contents.row(old, values), None, line)
        self.rows[new] = values
        self._write("insert", new, None, self.contents.row(new, values), line)

    def shift(self) -> None:
        """Every key becomes the next one, the last first, in one statement."""
        if max(self.rows, default=0) < self.spare - 1:
            for line, key in enumerate(sorted(self.rows, reverse=True)):
                self.rename(key, key + 1, line)

    def swap(self, one: int, other: int) -> None:
        """Two keys change places by way of a third, inside one transaction."""
        self.rename(one, self.spare)
        self.rename(other, one)
        self.rename(self.spare, other)

    @property
    def spare(self) -> int:
        """A key that only :meth:`swap` has, for a moment."""
        return len(self.contents.keys) - 1

    def truncate(self) -> None:
        gone = [(row, -copies) for row, copies in self.content().items()]
        self.rows.clear()
        self.bag.clear()
        self.tick()
        self._write("truncate", None, None, None)
        self.truth.moves[-1][1].extend(gone)

    def add_copy(self, row: Row) -> None:
        self.bag[row] += 1
        self.tick()
        self._write("insert", None, None, row)

    def remove_copy(self, row: Row) -> None:
        if self.bag[row]:
            self.bag[row] -= 1
            self.tick()
            self._write("delete", None, row, None)

    def change_copy(self, row: Row, new: Row) -> None:
        if self.bag[row] and new != row:
            self.bag[row] -= 1
            self.bag[new] += 1
            self.tick()
            self._write("update", None, row, new)

    def drawn_copy(self) -> Row:
        """One of few, so that there are several of one."""
        if self.rng.random() < 0.1:
            self._copies.append(self._neighbour(self.rng.choice(self._copies)))
        return self.rng.choice(self._copies)


KEYED = (
    "put",
    "put",
    "put",
    "touch",
    "touch",
    "remove",
    "rename",
    "shift",
    "swap",
    "truncate",
    "back",
    "rotate",
)
BAG = ("add_copy", "add_copy", "add_copy", "remove_copy", "change_copy", "truncate", "rotate")


def _operate(source: Source) -> None:
    rng = source.rng
    kind = rng.choice(KEYED if source.contents.keys else BAG)
    if (
        len(source.rows) + len(source.bag) > 10
        and kind in ("shift", "truncate")
        and rng.random() < 0.9
    ):
        kind = (
            "put" if source.contents.keys else "add_copy"
        )  # or a long history would never have many rows
    if kind in ("add_copy", "remove_copy"):
        getattr(source, kind)(source.drawn_copy())
    elif kind == "change_copy":
        source.change_copy(source.drawn_copy(), source.drawn_copy())
    elif kind == "truncate":
        source.truncate()
    elif kind == "rotate":
        source.tick(rotate=True)
    else:
        _operate_by_key(source, kind)


def _operate_by_key(source: Source, kind: str) -> None:
    key = source.rng.randrange(source.spare) if source.spare else 0
    if kind == "put":
        source.put(key, source.drawn_values())
    elif kind in ("remove", "touch"):
        getattr(source, kind)(key)
    elif kind == "shift":
        source.shift()
    elif kind == "back":
        source.remove(key)
        source.put(key, source.drawn_values())
    elif kind in ("rename", "swap"):
        held = sorted(source.rows)
        if kind == "swap" and len(held) > 1:
            source.swap(held[0], held[-1])
        elif held and key not in source.rows:
            source.rename(held[0], key)
