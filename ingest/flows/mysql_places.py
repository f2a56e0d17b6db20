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

_PLACES_DDL = f"""CREATE TABLE IF NOT EXISTS {PLACES} (
  pipeline VARCHAR(64) NOT NULL, flow VARCHAR(64) NOT NULL, sink VARCHAR(255) NOT NULL,
  checkpoint VARCHAR(32) NOT NULL, generation INT NOT NULL, batch BIGINT NOT NULL, ends LONGTEXT NOT NULL,
  PRIMARY KEY (pipeline, flow, sink)
) ENGINE=InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"""


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


def begin(server: Server, whose: Whose, at: Place) -> None:
    """Note where a sink that is new begins. One that is noted already stays as it is, unless nothing was ever written of it: a first start failed, or was killed,
    before the flow knew of it.
    """
    values = (*whose.key, at.checkpoint, at.generation, at.batch, at.ends)
    for attempt in again():
        with attempt, transaction(server) as cursor:
            try:
                cursor.execute(_PLACES_DDL)
                cursor.execute(
                    f"INSERT INTO {PLACES} VALUES (%s, %s, %s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE "
                    "checkpoint = IF(batch = -1, VALUES(checkpoint), checkpoint), "
                    "generation = IF(batch = -1, VALUES(generation), generation)",
                    values,
                )
            except pymysql.OperationalError as failure:
                if failure.args[0] in (1044, 1142):
                    raise _no_places(server) from None
                raise


def held(server: Server, whose: Whose) -> Place | None:
    """How far a sink is; None where nothing is noted."""
    for attempt in again():
        with attempt, transaction(server) as cursor:
            try:
                return place(cursor, whose)
            except pymysql.ProgrammingError as failure:
                if failure.args[0] != 1146:  # no such table
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
