"""The rows that are there before the first run, where they come in chunks (``source.first_rows``).

Debezium's own first snapshot is one long transaction before anything is streamed, and begins again from its beginning where it
is interrupted. Here it reads the tables' definitions alone, the connector streams at once, and each table's rows are asked for as
those of a table that joins later (``later_tables``): in chunks between two marks of the log, and the place in the table is kept
with the connector's offset, so what dies goes on there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ingest.config.pipeline_file import Pipeline
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.model.errors import Exit, IngestError
from ingest.source import resync
from ingest.source.connector import NO_ROWS, Connector, is_snapshotting
from ingest.source.later_tables import TakenBefore
from ingest.source.supervisor import Supervisor


def begin(pipeline: Pipeline, connector: Connector) -> None:
    """Before the connector is made. Raises :class:`IngestError` where the server has no GTIDs."""
    before = TakenBefore(pipeline)
    first = _is_first(before)
    if first or before.nothing_yet:
        _refuse_without_gtids(pipeline)
    if first:
        before.begin_with_nothing()
    connector.leaves_rows = before.nothing_yet and _may_leave_rows(connector)


def foresee(pipeline: Pipeline, connector: Connector) -> None:
    """What :func:`begin` would do to the connector; nothing is written."""
    before = TakenBefore(pipeline)
    first = _is_first(before) or before.nothing_yet
    connector.leaves_rows = first and _may_leave_rows(connector)


def _is_first(before: TakenBefore) -> bool:
    """Where the lake has neither a batch nor a note of what was taken. A connector may be there: it has begun with all rows, or for a
    lake that is gone, of which nobody knows what it had asked for.
    """
    chunks = before.pipeline.source.first_rows == "in_chunks"
    return chunks and not before.patterns() and Ledger(before.pipeline.lake.path).last() is None


def _may_leave_rows(connector: Connector) -> bool:
    """Where it is not there yet, or was made so and has not streamed: one that reads rows goes on with that."""
    current = connector.current()
    return current is None or current.get("snapshot.mode") == NO_ROWS


def follow(
    connector: Connector, supervisor: Supervisor, say: Callable[[str], None], stop: threading.Event
) -> None:
    """Behind its making: return once it streams and would read rows again were its offset lost, or when told to stop. Raises
    :class:`IngestError` where its task fails for good.
    """
    if not connector.leaves_rows:
        return
    said = 0.0
    while not stop.is_set():
        supervisor.look()
        try:
            if not is_snapshotting(connector.offset()):
                connector.leaves_rows = False
                connector.apply()
                return
        except IngestError as failure:
            if not failure.may_pass:
                raise
        if time.monotonic() - said > 5:
            said = time.monotonic()
            say(
                "waiting for the connector to read the tables' definitions; their rows come beside the stream …"
            )
        stop.wait(0.2)


def _refuse_without_gtids(pipeline: Pipeline) -> None:
    if not resync.is_possible(pipeline):
        raise IngestError(
            "E-FIRST-ROWS-GTID",
            "`source.first_rows: in_chunks` needs GTIDs, which this MySQL has not: requests for rows reach the connector without "
            "writing to MySQL only there.",
            means="Nothing was started.",
            remedy="set gtid_mode=ON, or leave `first_rows` away: all rows then come by one snapshot.",
            exit_code=Exit.REFUSED,
        )
