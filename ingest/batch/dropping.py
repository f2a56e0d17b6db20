"""Changes in quarantine that a person gives up (`ingest quarantine drop`): settled, and marked for good.

The quarantine's commit comes first, then the manifest's row with the gap; a start that finds the one without the other
finishes it by the commit's note, as it does with every batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ingest.batch.settling import Spine
from ingest.lake.delta.commit import Identity
from ingest.lake.quarantine.held_back import HeldBack
from ingest.model.failpoints import reached
from ingest.model.quarantine_drop import Drop, gaps


def give_up(
    spine: Spine, held: HeldBack, drop: Drop, identity: Identity, tables: Mapping[str, str]
) -> int:
    """Returns how many changes; of none, nothing is committed. ``tables``: topic to table."""
    dropped = held.drop(drop, identity)
    reached("quarantine_committed", identity.batch)
    if dropped:
        entry = spine.without_changes("drop")
        marks = gaps(drop, dropped, identity.batch, tables)
        spine.publish(replace(entry, gaps=(*entry.gaps, *marks)))
    return sum(one.changes for one in dropped)
