"""What is wrong with a connector, and what follows: facts of one look to a decision."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ingest.model.topics import TableId
from ingest.source.connector import Status

SILENT_AFTER = 20.0
"""Seconds without a binlog stream before a RUNNING task is called silent. Its own keep-alive
reconnects within about 10 s (two ticks of connect.keep.alive.interval.ms)."""
UNKNOWN_AFTER = 10.0
"""Seconds that Connect may not know the connector: a worker that has just started still reads."""


@dataclass(frozen=True)
class Facts:
    """One look. ``streams``: binlog streams of our user, None when MySQL cannot be asked, of which ``unasked`` says why.
    ``silent_seconds``: how long none has been there; ``unknown_seconds``: how long Connect has not
    known the connector. ``offset``: what Connect has stored of how far it is.
    """

    status: Status | None
    snapshotting: bool
    streams: int | None
    silent_seconds: float
    unknown_seconds: float = 0.0
    unasked: str = ""
    offset: Mapping[str, Any] | None = None
    passes_over: bool = True
    """Whether the connector passes over tables that it does not know already, or nobody could take them whole."""

    @property
    def begun_nowhere(self) -> bool:
        """True where Connect has stored an offset without a place: so it is from a connector's making until its first snapshot
        knows where the log stands (0.5 to 5 s seen, longer where that waits for its lock). Debezium reads none by it.
        """
        return self.offset is not None and "file" not in self.offset

    @property
    def runs(self) -> bool:
        """What Connect says; it may stand still all the same."""
        return self.status is not None and self.status.task == "RUNNING"


class Action(Enum):
    """What to do about a diagnosis."""

    NONE = "none"
    WAIT = "wait"
    CREATE = "create"
    RESTART = "restart"
    STOP = "stop"
    JOIN = "join"
    BEGIN_AGAIN = "begin again"


@dataclass(frozen=True)
class Diagnosis:
    """One sentence for a person, and what follows."""

    action: Action
    sentence: str = ""
    remedy: str = ""


_NO_PLACE = r"Source offset 'file' parameter is missing"
_UNKNOWN_TABLE = r"schema isn't known to this connector"
_LASTING = (
    (
        r"same server_uuid/server_id",
        (
            "another replica uses our server id: give this pipeline one of its own (`source.server_id`), "
            "then run again"
        ),
    ),
    (
        r"Access denied",
        "give the connector's user the grants of sql/source/grants.sql, then run again",
    ),
    (
        r"no longer available on the server|could not find next log|Error code: 1236.*log",
        "the binlog it needs is gone: `ingest resync FILE --all` takes every table again",
    ),
    (
        r"DDL statement couldn't be parsed|couldn't be parsed",
        (
            "Debezium cannot read that statement (typically DDL under ANSI_QUOTES): `ingest resync FILE "
            "--all` goes on behind it and takes every table again; report the statement to Debezium"
        ),
    ),
    (
        r"not configured to use a (ROW|FULL)",
        "set binlog_format=ROW and binlog_row_image=FULL, for every session, then run again",
    ),
    (
        r"internal schema size",
        (
            "either a session wrote without binlog_row_image=FULL (set it for every session), or Debezium "
            "misread a DDL such as two columns that swapped their names; then `ingest resync FILE --all` "
            "takes every table again"
        ),
    ),
    (
        r"RecordTooLarge|when serialized which is larger than",
        (
            "a row is larger than Kafka takes: raise `max.message.bytes` of its topic (and the broker's "
            "`message.max.bytes`), and below `connect.settings` both `producer.override.max.request.size` "
            "and `producer.override.buffer.memory`, then run again"
        ),
    ),
    (
        r"db history topic is missing",
        "the schema-history topic was deleted: `ingest resync FILE --all` takes every table again",
    ),
    (
        r"Invalid Java object for schema with type FLOAT64: class java.lang.Float",
        (
            "Debezium cannot read a FLOAT4 that has a default: `ingest resync FILE --all` goes on behind the statement, "
            "since MySQL's own definition says FLOAT; write FLOAT in migrations"
        ),
    ),
    (
        r"null used for required field",
        (
            "a snapshot has brought NULL for a NOT NULL column, as Debezium does with an ENUM or SET of the binary "
            "character set: run again, which has such tables read by another statement; one whose name "
            "Debezium cannot be told (docs/operations.md) has to be excluded"
        ),
    ),
    (
        r"NegativeArraySizeException",
        (
            "MySQL's driver cannot read a DECIMAL with ZEROFILL of which all digits are there: take ZEROFILL away, which "
            "changes no value (ALTER TABLE … MODIFY … DECIMAL(12,4) UNSIGNED), or exclude the table, then run again"
        ),
    ),
    (
        _UNKNOWN_TABLE,
        "a table was not readable at the snapshot: GRANT SELECT on it, then `ingest resync FILE --all`",
    ),
)


_STILL = {
    "PAUSED": "the connector is paused, and changes wait in MySQL's binlog: `ingest connector resume FILE` has it go on",
    "STOPPED": "the connector is stopped, and changes wait in MySQL's binlog: `ingest connector resume FILE` has it go on; "
    "where `ingest resync FILE --all` was ended before it was through, run that again instead",
}
"""What Connect calls a connector that is to stand still. A person may want that, so nothing is done about it but to say so."""


def diagnose(facts: Facts) -> Diagnosis:
    """Facts to a diagnosis; pure."""
    status = facts.status
    if status is None:
        if facts.unknown_seconds < UNKNOWN_AFTER:
            return Diagnosis(Action.WAIT)
        return Diagnosis(Action.CREATE, "Connect has lost the connector; making it again")
    if status.task == "FAILED" or status.connector == "FAILED":
        if facts.begun_nowhere and re.search(_NO_PLACE, status.trace):
            return Diagnosis(
                Action.BEGIN_AGAIN,
                "the connector's task ended before its first snapshot had a place in the log, and finds none; it begins again",
            )
        if re.search(_UNKNOWN_TABLE, status.trace) and not facts.passes_over:
            return Diagnosis(
                Action.JOIN,
                f"a table has joined later ({status.cause}); its changes are passed over until it is taken whole",
            )
        for pattern, remedy in _LASTING:
            if re.search(pattern, status.trace, re.DOTALL):
                return Diagnosis(
                    Action.STOP, f"the connector's task has failed: {status.cause}", remedy
                )
        return Diagnosis(Action.RESTART, f"the connector's task has failed: {status.cause}")
    if status.connector == "STOPPED" and facts.begun_nowhere:  # beginning again has ended half-way
        return Diagnosis(
            Action.BEGIN_AGAIN, "the connector was stopped to begin again; it goes on with that"
        )
    if status.connector in _STILL:
        return Diagnosis(Action.NONE, _STILL[status.connector])
    if status.task != "RUNNING" or facts.snapshotting:
        return Diagnosis(Action.NONE)
    if facts.streams == 0:
        if facts.silent_seconds >= SILENT_AFTER:
            return Diagnosis(
                Action.RESTART,
                "the connector says RUNNING, but MySQL has had no binlog stream of it for "
                f"{facts.silent_seconds:.0f} s",
            )
        return Diagnosis(Action.WAIT)
    return Diagnosis(Action.NONE)


def named_unknown(status: Status | None) -> set[TableId]:
    """The table that a task has failed at, as it did not know it."""
    found = re.search(rf"table (.+?)\.(.+) whose {_UNKNOWN_TABLE}", status.trace if status else "")
    return {TableId(*found.groups())} if found else set()
