"""The newest transaction of each server that a topic partition has brought. Pure.

A server numbers its transactions in the order of its log (of each tag, since MySQL 8.3), and one log may hold those of
several: of a source that replicates from several, or of a server that took over. What a partition's newest streamed change
says of its own numbering is in its mark (``manifest.HighWater.gtid``); here is what is known of the others. So a change
whose number is beyond all that came there of its numbering has never come, wherever it stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ingest.model.gtid import numbered

Numbers = Mapping[str, int]
"""By numbering (``gtid.numbered``) the newest number."""
Others = tuple[tuple[str, int], ...]
"""The same as a value, in order."""

SQL_TYPE = "array<struct<topic: string, partition: int, numbering: string, number: bigint>>"


def newest(*several: Numbers) -> dict[str, int]:
    """Of all of them."""
    found = dict[str, int]()
    for numbers in several:
        for numbering, number in numbers.items():
            found[numbering] = max(number, found.get(numbering, number))
    return found


def of(*gtids: str | None) -> dict[str, int]:
    """Of some transactions; of a text that is no GTID, nothing."""
    return newest(*(dict([found]) for gtid in gtids if gtid and (found := numbered(gtid))))


def is_one(first: str | None, last: str | None) -> bool:
    """Whether all GTIDs are of one numbering, by the first and the last of them as texts: what stands between two texts
    that begin alike begins so, too, and behind a server's name a tag's first letter comes after every digit.
    """
    one, other = (numbered(gtid) if gtid else None for gtid in (first, last))
    return (one and one[0]) == (other and other[0])


def others(before: Others, displaced: str, gtid: str, came: Numbers) -> Others:
    """Beside the numbering of ``gtid``, a partition's newest transaction now. ``displaced``: which that was; ``came``: what
    the batch has brought.
    """
    known = newest(dict(before), of(displaced), came)
    own = numbered(gtid)
    return tuple(sorted((n, number) for n, number in known.items() if not own or n != own[0]))


def listed(marks: Mapping[tuple[str, int], Others]) -> list[dict[str, Any]]:
    """As the manifest has them, in the shape of :data:`SQL_TYPE`."""
    return [
        {"topic": topic, "partition": partition, "numbering": numbering, "number": number}
        for (topic, partition), some in sorted(marks.items())
        for numbering, number in some
    ]


def by_place(rows: Iterable[Mapping[str, Any]] | None) -> dict[tuple[str, int], Others]:
    """The inverse; nothing from a manifest of before it had them."""
    found = dict[tuple[str, int], Others]()
    for row in rows or ():
        place = (row["topic"], row["partition"])
        found[place] = (*found.get(place, ()), (row["numbering"], row["number"]))
    return found
