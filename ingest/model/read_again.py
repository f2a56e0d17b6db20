"""Whether a table is being read again: it went back, or was made again, and its change log, which never goes back, is ahead of it. Pure."""

from __future__ import annotations

from ingest.model import reasons
from ingest.model.gap import Gap
from ingest.model.manifest import Entry

_ENDS_ANEW = (reasons.TOPIC_DELETED, reasons.TOPIC_MADE_AGAIN, reasons.END_LOST)
"""Behind these a topic's offsets are given to other records, so where a log ends says nothing of where its table is."""


def is_read_again(entry: Entry, table: str, topic: str) -> bool:
    """True while a table is behind its own change log, as where it is being filled anew. The log does not tell once more what it holds already, so who
    adds its changes to rows of the table has to wait.

    Where Kafka has lost the end of a topic, or has another one, the log's ends are of records that are no more until the next batch of the
    table: nothing is waited for that may never come. The table is taken again then, which its log tells.
    """
    state = entry.tables.get(table)
    if state is None or state.log is None:
        return False
    anew = {gap.partition for gap in entry.gaps if gap.topic == topic and _ends_anew(gap)}
    return any(
        end > entry.ends.get((topic, partition), 0)
        for partition, end in state.log.ends
        if partition not in anew
    )


def _ends_anew(gap: Gap) -> bool:
    return gap.is_open and any(reason.is_in(gap.reason) for reason in _ENDS_ANEW)
