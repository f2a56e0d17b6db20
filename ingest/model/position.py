"""Where a change sits in the source's log: a total, numeric order. Timestamps are never order.

``epoch`` grows when the log itself restarts or another server takes over, so positions of two
epochs compare by epoch alone. ``part`` orders the two halves of a primary-key change, which share
file, byte position and row (``tests/capability/test_debezium.py``): the delete of the old key first, then the create. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import total_ordering
from typing import Any

PART_DELETE = 0
PART_WRITE = 1
PART_REREAD = 2
"""A row of an incremental snapshot carries the position of the last streamed event, which may be its
own; it was read after that event, so it comes after it."""

SQL_TYPE = "struct<epoch: int, file: bigint, pos: bigint, row: int, part: int>"
"""The same value inside Spark and Delta; structs compare field by field there too (``tests/capability/test_spark.py``)."""

_TEXT = re.compile(r"(\d+)/(\d+):(\d+):(\d+)\.(\d+)")
_FILE_NUMBER = re.compile(r"\.(\d+)$")


@total_ordering
@dataclass(frozen=True)
class Position:
    """(epoch, binlog file number, byte position, row in event, part), compared as numbers."""

    epoch: int
    file: int
    pos: int
    row: int = 0
    part: int = PART_DELETE

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Position):
            return NotImplemented
        return self.key() < other.key()

    def key(self) -> tuple[int, int, int, int, int]:
        """The tuple that orders positions."""
        return (self.epoch, self.file, self.pos, self.row, self.part)

    def as_dict(self) -> dict[str, int]:
        """For JSON and for Spark rows."""
        return {
            "epoch": self.epoch,
            "file": self.file,
            "pos": self.pos,
            "row": self.row,
            "part": self.part,
        }

    def sql(self) -> str:
        """The position as a Spark SQL literal of :data:`SQL_TYPE`."""
        fields = ", ".join(f"'{name}', {value}" for name, value in self.as_dict().items())
        return f"CAST(named_struct({fields}) AS {SQL_TYPE})"

    @classmethod
    def from_mapping(cls, value: Any) -> Position:
        """From a dict or a Spark ``Row`` with the five fields."""
        return cls(*(int(value[name]) for name in ("epoch", "file", "pos", "row", "part")))

    @classmethod
    def parse(cls, text: str) -> Position:
        """The inverse of ``str``. Raises ``ValueError``."""
        found = _TEXT.fullmatch(text)
        if not found:
            raise ValueError(f"{text!r} is not a position such as 0/000003:4711:0.0")
        return cls(*map(int, found.groups()))

    def __str__(self) -> str:
        return f"{self.epoch}/{self.file:06d}:{self.pos}:{self.row}.{self.part}"


def file_number(binlog_file: str) -> int:
    """``'binlog.000042' -> 42``. Compared as a number: as text, file 1000000 sorts before 999999.

    Raises ``ValueError`` for a name without a numeric suffix.
    """
    found = _FILE_NUMBER.search(binlog_file)
    if not found:
        raise ValueError(f"binlog file without a number: {binlog_file!r}")
    return int(found.group(1))
