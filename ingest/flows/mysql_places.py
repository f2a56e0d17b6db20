"""How far a flow is, in a table of MySQL beside those that it writes: its rows and its place change in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pymysql
from pymysql.cursors import Cursor

from ingest.config.connection_settings import Server
from ingest.flows.batch_place import Place, act, is_act
from ingest.flows.mysql_rows import Into, write
from ingest.flows.mysql_server import again, transaction
from ingest.flows.refused_rows import Refused
from ingest.model.errors import IngestError
from ingest.model.names import quoted

PLACES = "ingest_flow_places"
"""The table, beside the flows' own, that says how far each is."""

_NO_TABLE = 1146

_PLACES_DDL = f"""CREATE TABLE IF NOT EXISTS {PLACES} (
  pipeline VARCHAR(64) NOT NULL, flow VARCHAR(64) NOT NULL, sink VARCHAR(255) NOT NULL,
  checkpoint VARCHAR(32) NOT NULL, generation INT NOT NULL, batch BIGINT NOT NULL, ends LONGTEXT NOT NULL,
  PRIMARY KEY (pipeline, flow, sink)
) ENGINE=InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"""


_ALL = ", ".join(
    f"{name} = VALUES({name})" for name in ("checkpoint", "generation", "batch", "ends")
)


@dataclass(frozen=True)
class Whose:
    """Of which flow's sink a place is."""

    pipeline: str
    flow: str
    sink: str

    @property
    def key(self) -> tuple[str, str, str]:
        """In the table of places."""
        return (self.pipeline, self.flow, self.sink)


def place(cursor: Cursor, whose: Whose, *, to_change: bool = False) -> Place | None:
    """How far a sink is."""
    cursor.execute(
        f"SELECT checkpoint, generation, batch, ends FROM {PLACES} WHERE pipeline = %s AND flow = %s AND sink = %s"
        + (" FOR UPDATE" if to_change else ""),
        whose.key,
    )
    found = cursor.fetchone()
    return Place(*found) if found else None


def begin(server: Server, whose: Whose, at: Place, *, later: bool) -> None:
    """Note where a sink that is new begins. One that is noted already stays as it is, unless nothing was ever written of it: a first start failed, or was killed,
    before the flow knew of it; or it is of the same checkpoint, and the sink was taken out meanwhile (``later``): it gets what comes from now on. Of a
    batch that it has already and that comes again, it keeps its place.
    """
    for attempt in again():
        with attempt, transaction(server) as cursor:
            try:
                there = _made_or_held(cursor, whose)
                back = later and there is not None and there.checkpoint == at.checkpoint
                if there is None or there.batch == -1 or (back and there.batch < at.batch):
                    cursor.execute(
                        f"INSERT INTO {PLACES} VALUES (%s, %s, %s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE {_ALL}",
                        (*whose.key, at.checkpoint, at.generation, at.batch, at.ends),
                    )
            except pymysql.OperationalError as failure:
                if failure.args[0] in (1044, 1142):
                    raise _no_places(server) from None
                raise


def _made_or_held(cursor: Cursor, whose: Whose) -> Place | None:
    """The table of places is made where it is not there: who may not make it may still use one that somebody else has made."""
    try:
        return place(cursor, whose, to_change=True)
    except pymysql.ProgrammingError as failure:
        if failure.args[0] != _NO_TABLE:
            raise
    cursor.execute(_PLACES_DDL)
    return place(cursor, whose, to_change=True)


def held(server: Server, whose: Whose) -> Place | None:
    """How far a sink is; None where nothing is noted."""
    for attempt in again():
        with attempt, transaction(server) as cursor:
            try:
                return place(cursor, whose)
            except pymysql.ProgrammingError as failure:
                if failure.args[0] != _NO_TABLE:
                    raise
    return None


def at_once(
    into: Into,
    whose: Whose,
    first: Place,
    end: Place,
    rows: Callable[[], Iterable[Sequence[Any]]],
    refused: Callable[[Sequence[Refused]], object],
    *,
    replaces: bool,
) -> bool:
    """A batch from ``first`` to ``end``, and that it is there, in one transaction. ``refused``: keeps what MySQL refuses, before the rest is
    committed; ``replaces``: the rows are the whole table. Returns whether it was done now. Raises :class:`IngestError` where the batch is not the
    table's next.
    """
    for attempt in again():
        with attempt, transaction(into.server) as cursor:
            found = act(place(cursor, whose, to_change=True), first, end)
            if not is_act(found):
                raise _elsewhere(into, whose, found)
            if found == "skip":
                return False
            if found == "anew" or replaces:
                cursor.execute(f"DELETE FROM {quoted(into.table)}")
            refused(write(cursor, into, rows()))
            cursor.execute(
                f"UPDATE {PLACES} SET checkpoint = %s, generation = %s, batch = %s, ends = %s "
                "WHERE pipeline = %s AND flow = %s AND sink = %s",
                (end.checkpoint, end.generation, end.batch, end.ends, *whose.key),
            )
    return True


def _elsewhere(into: Into, whose: Whose, found: str) -> IngestError:
    return IngestError(
        "E-FLOW-PLACE",
        f"The flow {whose.flow!r} cannot go on in the table {into.table} of {into.server.shown}: {found}.",
        means="Nothing of the batch was written there: it would be lost, or there twice.",
        remedy="bring back the table, or the checkpoint, that belongs to the other; or say `on_change: restart` of the flow, and start it "
        "again: then it writes the table anew from the beginning of its inputs.",
    )


def _no_places(server: Server) -> IngestError:
    return IngestError(
        "E-FLOW-SERVER",
        f"The user {server.user!r} of {server.shown} may not make the table {PLACES}, in which a flow notes how far it is.",
        remedy=f"have somebody who may run this once in `{server.database}`, and grant SELECT, INSERT and UPDATE on it: {' '.join(_PLACES_DDL.split())}",
    )
