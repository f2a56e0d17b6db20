"""The files of a table's log: whether there is a newer one, and how many there are.

delta-rs (1.6.6) looks at every file of the folder to find the newest, 2 µs each and several times a commit, and so
does who asks it whether there is a table. So it is asked for little, and the folder is kept short.
"""

from __future__ import annotations

import json
import re
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingest.lake.files.storage import PART
from ingest.lake.files.table_files import LOG, TableFiles, of

Action = dict[str, Any]
"""A line of a commit, as Delta's protocol has it."""

Table = Path | TableFiles
"""A table in a local folder, or anywhere."""

POINTER = f"{LOG}/_last_checkpoint"

_COMMIT = re.compile(r"\d{20}\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")
_NUMBERED = re.compile(r"(\d{20})\.(json|crc|checkpoint\..+)")


class UnknownLogError(Exception):
    """The log is of a kind that this does not read, or has not all of it any more."""


class TornCommitError(UnknownLogError):
    """A commit is there and does not hold what was committed: what was in it is not known, so it must not be passed
    over as one without actions.
    """


@dataclass(frozen=True)
class Seen:
    """A commit as it was seen: another of the same number, after a table was made again, is not the same."""

    version: int
    file: tuple[object, ...]

    @classmethod
    def at(cls, table: Table, version: int) -> Seen | None:
        """None where a table has no such commit, or its log does not hold it any more."""
        found = of(table).seen(commit_name(version))
        return None if found is None else cls(version, found)


def is_there(table: Table, version: int) -> bool:
    """True when a table's log holds this commit."""
    return of(table).seen(commit_name(version)) is not None


def is_begun(table: Table) -> bool:
    """True when a folder holds a table: its log names a checkpoint, has a first commit, or any (a log may have lost
    both of these and be whole: the name of the last checkpoint is a hint, early commits are removed).
    """
    return of(table).seen(POINTER) is not None or is_there(table, 0) or newest(table) >= 0


def is_commit(name: str) -> bool:
    """True for the name of a log entry, which no checksum or part of one has."""
    return _COMMIT.fullmatch(name) is not None


def newest(table: Table) -> int:
    """The highest number of a commit that a table's log holds; -1 without one. Reads the whole folder."""
    return max((int(name[:20]) for name in of(table).log() if is_commit(name)), default=-1)


def read(table: Table, version: int) -> list[Action] | None:
    """A commit's actions; None where a table's log does not hold it. Raises :class:`TornCommitError`."""
    found = of(table)
    text = found.text(commit_name(version))
    return None if text is None else lines(text, f"version {version} of {found.place}")


def lines(text: bytes, of: str) -> list[Action]:
    """The actions of a commit, one a line. JSON leaves many of Unicode's line separators as they are, so that a line
    ends at a line feed alone. Raises :class:`TornCommitError`; ``of``: whose they are.
    """
    try:
        actions = [json.loads(line) for line in text.split(b"\n") if line.strip(b"\r")]
    except ValueError as failure:
        raise TornCommitError(f"{of} is cut off or is no commit: {failure}") from failure
    if not actions:
        raise TornCommitError(f"{of} is empty")
    return actions


def write(table: Table, version: int, actions: Iterable[Action]) -> bool:
    """Make this commit; False when there is one of that number. Not in ASCII: delta-rs (1.6.6) reads an escaped pair
    of surrogates as another character where it is of plane 2 or above.
    """
    return of(table).create(commit_name(version), _text(actions))


def write_unsynced(table: Path, version: int, actions: Iterable[Action]) -> None:
    """The same in a log that nobody needs after a power cut, and nobody else writes to."""
    file = table / commit_name(version)
    file.parent.mkdir(parents=True)
    file.write_text(_text(actions), encoding="utf-8")


def _text(actions: Iterable[Action]) -> str:
    return "".join(json.dumps(action, ensure_ascii=False) + "\n" for action in actions)


def committed_before(table: Table, when: float) -> int:
    """The newest version that was committed before a time (seconds since 1970), by its file; -1 where none was. The next one may be as old where
    a clock was set back: then more stays.
    """
    found_at = of(table)
    commits = sorted(int(name[:20]) for name in found_at.log() if is_commit(name))

    def is_younger(version: int) -> bool:
        written = found_at.written(commit_name(version))
        return written is None or written >= when

    at = bisect_left(commits, True, key=is_younger)
    return commits[at - 1] if at else -1


def last_checkpoint(table: Table, upto: int) -> int | None:
    """The newest version up to this one of which a log has a checkpoint in one file; None for none. Reads the whole folder."""
    return _last_checkpoint(of(table).log(), upto)


def _last_checkpoint(names: Iterable[str], upto: int) -> int | None:
    numbers = (int(found[1]) for name in names if (found := _CHECKPOINT.fullmatch(name)))
    return max((one for one in numbers if one <= upto), default=None)


def cut(table: Table, upto: int, refuse_lost: Callable[[], None] = lambda: None) -> int:
    """Remove the log of what came before the last checkpoint that is not behind version ``upto``: that one, and all that
    come after it, stay readable. Returns how many files went. So goes what a job was writing when it was
    killed: a table has one writer, and this is it. ``refuse_lost`` is asked when it is known what goes: whoever is suspended from there on
    removes what nobody needed by then.
    """
    found_at = of(table)
    names = found_at.log()
    base = _last_checkpoint(names, upto) or 0
    refuse_lost()
    if base:  # what replaces them is on the disk before they go
        found_at.settle([f"{LOG}/{base:020d}.checkpoint.parquet"])
    old = [name for name in names if (found := _NUMBERED.fullmatch(name)) and int(found[1]) < base]
    old += [name for name in names if (left := PART.fullmatch(name)) and is_commit(left["of"])]
    # A hole that a crash leaves concerns nobody: whoever reads what is kept begins at the checkpoint.
    found_at.drop([f"{LOG}/{name}" for name in old], in_turn=False)
    return len(old)


def now_ms() -> int:
    """What Delta has for the time of an action: milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def commit_name(version: int) -> str:
    """A commit's file below its table."""
    return f"{LOG}/{version:020d}.json"
