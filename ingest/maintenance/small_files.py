"""Which of a table's files Spark is to put together: the smallest, as many as one pause between two batches allows. Pure."""

from __future__ import annotations

from collections.abc import Sequence

SMALL = 16 * 2**20
"""Bytes below which a file is small: reading it costs Spark as much as opening it (``spark.sql.files.openCostInBytes`` is 4 MiB)."""

LARGEST = 128 * 2**20
"""Bytes of a file that small ones are put together to: as ``spark.sql.files.maxPartitionBytes``, so that one task reads it."""

MOST = 256 * 2**20
"""Bytes that are written anew at once, some seconds of two cores. The next changes wait meanwhile."""

AT_LEAST = 2**20
"""Bytes that a file counts for, however small it is: to open it takes as long."""

FEWEST = 8
"""Files that are worth it."""


def below(sizes: Sequence[int]) -> int | None:
    """A size in bytes: all files that are smaller are to be put together. None where that is not worth it."""
    room, least = MOST, SMALL
    smaller = sorted(size for size in sizes if size < SMALL)
    for size in smaller:
        taken = max(size, AT_LEAST)
        if taken > room:
            least = size
            break
        room -= taken
    return least if sum(size < least for size in smaller) >= FEWEST else None
