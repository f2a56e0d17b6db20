"""How a table's rows should lie in its files, and which files to write anew for it. Facts in, files out; pure.

A MERGE reads and writes whole files: those that hold one of its keys. It writes their rows as they come, so
files that each held a range of keys become one that holds them all, and the next MERGE has to write that one.
Where changes come to a few ranges (new orders, say) it pays to sort rows by key and cut them into files again.
Where they come to keys at random it never pays: each MERGE meets every file. Which of the two a table is, its
MERGEs show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

PARTS, SMALLEST, LARGEST = 8, 256 * 2**10, 128 * 2**20
"""A table is cut into about so many files, of no less and no more bytes. A scan opens each of them."""

FINER, LOCAL = 8, 4
"""Where changes come to one part in so many (``LOCAL``) of a table, that part is cut into files so much smaller
(``FINER``) or smaller yet: a MERGE writes less."""

MANY_SMALL = 8
"""So many files below half the size that is wanted, to which no changes come, are put together, whatever their
keys are."""

WORTH = 3
"""Of the rows that MERGEs wrote in no order one in so many is taken to be written in vain. When as many were as are out
of order, these are written once more (``Written.in_vain``): order costs at most a third of what MERGEs cost, and
where it turns out not to help, nothing more."""

MOST = 32 * 2**20
"""Bytes that are written anew at a time, while changes wait: some seconds. As many rows as :data:`WORTH` MERGEs
wrote are not too many either."""

UNPACKED = 32 * 2**20
"""Bytes of the rows that are written anew at a time, before they are compressed: sorted and written they take some five times that of
memory. Rows of a text that repeats take a thirtieth of it on disk, so that :data:`MOST` alone would be a GiB of them.
"""
QUIET = 64
"""MERGEs after which a file that none of them marked a row of is written anew without those deleted before: changes
have moved on, and who reads the table shall not pay for where they were."""

WORN, WORN_ROWS = 8, 8_192
"""A file of which one row in so many, or so many rows, are deleted (``deletion_vector``) is written anew without
them: who reads it reads them, too, and each commit that deletes more of them names all."""


@dataclass(frozen=True)
class DataFile:
    """A file of a table. ``low``, ``high``: of the key's first column; None where nothing is known of it.
    ``rows``: that are not deleted; ``deleted``: of others. ``hot``: a MERGE wrote it lately. ``quiet``: rows of
    it are deleted, and none lately.
    """

    path: str
    bytes: int
    rows: int
    low: Any = None
    high: Any = None
    hot: bool = False
    deleted: int = 0
    quiet: bool = False


@dataclass(frozen=True)
class Look:
    """What was seen of a table's files. ``since``: by path, how many rows were deleted, and how many MERGEs the
    table had had when that was first seen; None before the first look.
    """

    since: Mapping[str, tuple[int, int]] | None = None

    def then(self, files: Sequence[DataFile], merges: int) -> tuple[list[DataFile], Look]:
        """The next look: files with what the two together say of them. ``merges``: so many by now."""
        before = self.since or {}
        now = dict[str, tuple[int, int]]()
        for one in files:
            deleted, since = before.get(one.path, (one.deleted, merges))
            now[one.path] = (one.deleted, since if deleted == one.deleted else merges)
        known = [
            replace(
                one,
                hot=self.since is not None and one.path not in before,
                quiet=one.deleted > 0 and merges - now[one.path][1] >= QUIET,
            )
            for one in files
        ]
        return known, Look(now)


@dataclass(frozen=True)
class Written:
    """What MERGEs have written of a table since it was last put in order. ``least``: rows per MERGE, where they were
    least from one look to the next; None before the first. ``piece``: rows per file, as they were cut then; 0 where
    it never was put in order.
    """

    merges: int = 0
    rows: int = 0
    least: float | None = None
    piece: int = 0

    def and_then(self, rows: int, merges: int = 1) -> Written:
        """With more MERGEs, which wrote so many rows together."""
        each = rows / max(1, merges)
        least = each if self.least is None else min(self.least, each)
        return replace(self, merges=self.merges + merges, rows=self.rows + rows, least=least)

    @property
    def in_vain(self) -> float:
        """How many rows were written that an order would have spared, as far as is known. What a MERGE cannot do
        without is what it wrote when the order was new; nothing is known of that before, nor where it wrote no more
        than one of the pieces, of which it may need a small part. There it counts as a share of all.
        """
        least = self.least or 0
        if not self.piece or 2 * least < 3 * self.piece:
            return self.rows / WORTH
        return self.rows - self.merges * least


@dataclass(frozen=True)
class Rewrite:
    """Files to be written anew, their rows sorted by key. ``orders``: not just because they are small."""

    files: tuple[DataFile, ...]
    rows_per_file: int
    orders: bool

    @property
    def rows(self) -> int:
        """In all of them."""
        return sum(one.rows for one in self.files)

    @property
    def pieces(self) -> int:
        """How many files they become."""
        return max(1, round(self.rows / self.rows_per_file))


@dataclass(frozen=True)
class Size:
    """Of a table's files together."""

    bytes: int
    rows: int

    @classmethod
    def of(cls, files: Sequence[DataFile]) -> Size:
        """Of these."""
        return cls(sum(one.bytes for one in files), sum(one.rows for one in files))

    def rows_in(self, size: int) -> int:
        """How many rows of this table take so many bytes; one at the least."""
        return max(1, size * self.rows // max(1, self.bytes))

    @property
    def rows_per_file(self) -> int:
        """How many rows a file of this table should have."""
        return self.rows_in(min(max(self.bytes // PARTS, SMALLEST), LARGEST))

    @property
    def rows_per_piece(self) -> int:
        """How many rows a file of this table should have at the least where changes come to it."""
        return self.rows_in(SMALLEST // FINER)


def choose(files: Sequence[DataFile], written: Written) -> Rewrite | None:
    """What is to be written anew now, or None."""
    size = Size.of(files)
    wanted, finest = size.rows_per_file, size.rows_per_piece
    most = max(size.rows_in(MOST), WORTH * written.rows // max(1, written.merges))
    loose = _together(out_of_order(files, finest), most)
    rows = sum(one.rows for one in loose)
    if rows and written.in_vain >= rows:
        is_local = rows * LOCAL <= size.rows
        finer = max(finest, min(wanted // FINER, rows // PARTS))
        found = Rewrite(loose, finer if is_local else wanted, True)
        if max(found.pieces, len(loose)) > 1:
            return found
    worn = [one for one in files if _is_worn(one) and 2 * (one.rows + one.deleted) >= wanted]
    if worn:
        return Rewrite(_together(worn, most) or (worn[0],), wanted, False)
    small = _together([one for one in files if 2 * one.rows < wanted and not one.hot], most)
    return Rewrite(small, wanted, False) if len(small) >= MANY_SMALL else None


def unpacked_within(
    rewrite: Rewrite, unpacked: Mapping[str, int], most: int = UNPACKED
) -> Rewrite | None:
    """The same, or those of its files whose rows fit into memory together: they are sorted there. ``unpacked``: bytes of each. Where no two
    do, one alone: that is to be cut, with at most twice so much, or to be rid of deleted rows, whatever it takes. None: there is no such one.
    """
    taken, size = list[DataFile](), 0
    for one in rewrite.files:
        if size + unpacked[one.path] <= most:
            size += unpacked[one.path]
            taken.append(one)
    if len(taken) > 1:
        return replace(rewrite, files=tuple(taken))
    for one in rewrite.files:
        alone = replace(rewrite, files=(one,))
        if _is_worn(one) or (alone.pieces > 1 and unpacked[one.path] <= 2 * most):
            return alone
    return None


def out_of_order(files: Sequence[DataFile], finest: int) -> list[DataFile]:
    """Files that MERGEs wrote lately and that have more than twice so many rows, or whose range of keys is not theirs
    alone, by their keys. The others cost no MERGE anything. Ranges may touch: rows of a key of several columns may
    have the first in common.
    """
    if any(one.low is None or one.high is None for one in files):
        return []
    groups = list[list[DataFile]]()
    high = None
    for one in sorted(files, key=lambda one: (one.low, one.high)):
        if groups and one.low < high:
            groups[-1].append(one)
            high = max(high, one.high)
        else:
            groups.append([one])
            high = one.high
    return [
        one
        for group in groups
        for one in group
        if one.hot and (len(group) > 1 or one.rows > 2 * finest)
    ]


def _is_worn(one: DataFile) -> bool:
    return one.quiet or one.deleted > WORN_ROWS or one.deleted * WORN > one.rows + one.deleted


def _together(files: Sequence[DataFile], most: int) -> tuple[DataFile, ...]:
    """As many of them, in their order, as have no more rows than this together."""
    taken, rows = list[DataFile](), 0
    for one in files:
        if rows + one.rows <= most:
            rows += one.rows
            taken.append(one)
    return tuple(taken)
