"""Tables that stand still where a run was to bring all to the end. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ingest.model import reasons
from ingest.model.errors import Exit, IngestError
from ingest.model.manifest import Entry
from ingest.model.topics import TableId, captured


def refuse(
    newest: Entry | None, left_out: Mapping[str, str], patterns: Sequence[str], *, once: bool
) -> None:
    """A run to the end that has left a table behind has not done what it was asked for; of one that ``patterns`` take no more nothing was."""
    states = newest.tables if newest else {}
    stopped = {TableId.parse(name): one.stopped for name, one in states.items() if one.stopped}
    standing = {str(table): stopped[table] for table in captured(stopped, patterns)}
    left = reasons.LEFT_BY_CONNECTOR
    standing |= {n: f"{left.of(words=w)}. What helps: {left.remedy}" for n, w in left_out.items()}
    if once and standing:
        raise IngestError(
            "E-TABLE-STOPPED",
            "A part of what was to be applied could not be, and these tables stand still",
            each=tuple(f"{name}: {why}" for name, why in sorted(standing.items())),
            means="All other tables are up to date. What these miss stays in Kafka, in order, or in MySQL.",
            remedy="mend what is named there, then run again: each start tries them again.",
            exit_code=Exit.FAILED,
        )
