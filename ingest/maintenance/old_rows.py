"""Rows of the manifest that nobody needs any more, removed.

A table may be brought back to any version that is still readable, and where its topic goes on then is said by the newest row of
the manifest by which the table held no more than that. So rows go that are older than what stays readable, but for the newest of them. That may
be a part, so its whole row stays, too (``part_rows``). Files go as a whole, never rows of one: nothing is written anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timezone

from ingest.lake.delta import delta_log
from ingest.lake.delta.delta_log import Action
from ingest.lake.delta.delta_rs_table import DeltaRsTable
from ingest.lake.delta.delta_snapshot import LiveFile
from ingest.lake.delta.delta_sql import queried


@dataclass(frozen=True)
class Unneeded:
    """Files of a table whose rows have the numbers of batches. ``below``: the first batch of which all stays."""

    files: tuple[LiveFile, ...]
    below: int

    @property
    def rows(self) -> int:
        """In all of them."""
        return sum(one.rows or 0 for one in self.files)


def unneeded(direct: DeltaRsTable, since: float) -> Unneeded | None:
    """What can go while versions since then (epoch seconds) are readable; None for nothing."""
    direct.version()
    live = list(direct.state.files.values())
    at = datetime.fromtimestamp(since, timezone.utc).isoformat()
    with direct.scratch(live) as work:
        # By number, as clocks are set: nothing goes that comes after a row which is younger.
        (found,) = queried(
            work.table,
            "SELECT min(batch_id) FILTER (WHERE started_at >= to_timestamp("
            f"'{at}')) AS young, max(batch_id) AS newest FROM rows",
        )
        if found["newest"] is None:
            return None
        first = found["newest"] if found["young"] is None else found["young"]
        whole = "base" in {field.name for field in work.table.schema().fields}
        rests = "coalesce(base, batch_id)" if whole else "batch_id"
        kept = queried(
            work.table,
            f"SELECT {rests} AS below FROM rows WHERE batch_id < {first} ORDER BY batch_id DESC LIMIT 1",
        )
    if not kept:
        return None
    below = int(kept[0]["below"])
    gone = tuple(_of_older(live, below))
    return Unneeded(gone, below) if gone else None


def _of_older(files: Iterable[LiveFile], below: int) -> Iterable[LiveFile]:
    """Files with rows of batches before this one alone. Pure."""
    for one in files:
        _, high = one.range("batch_id")
        if isinstance(high, int) and high < below:
            yield one


def remove(direct: DeltaRsTable, gone: Unneeded) -> int:
    """In one commit; returns how many rows. Raises as ``DeltaRsTable.append`` does."""
    now = delta_log.now_ms()
    predicate = f'["batch_id < {gone.below}"]'
    info: Action = {
        "timestamp": now,
        "operation": "DELETE",
        "operationParameters": {"predicate": predicate},
    }
    with direct.scratch(()) as work:
        direct.commit(work, info, [one.removed(now) for one in gone.files], rows=0)
    return gone.rows
