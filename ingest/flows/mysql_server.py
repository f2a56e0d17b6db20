"""A MySQL that flows write to: connections that cut off nothing, transactions on them, and what may go better a moment later."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pymysql
from pymysql.cursors import Cursor
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from ingest.config.connection_settings import Server
from ingest.model.errors import IngestError
from ingest.source.mysql_connection import Connection

_PASSING = frozenset((1053, 1205, 1213, 2003, 2006, 2013, 2055))
"""The server is away or was lost; another transaction was in the way."""


def connect(server: Server) -> pymysql.Connection[Cursor]:
    """A connection that cuts and rounds off nothing, in UTC. Raises :class:`IngestError` where there is none to be had."""
    tls: dict[str, Any] = {}
    if server.tls:
        context = ssl.create_default_context(cadata=server.ca)
        # As PyMySQL has it: certificates that people make for themselves lack what Python 3.13 wants beyond the standard's musts.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        tls = {"ssl": context}
    try:
        connection = Connection(
            host=server.host,
            port=server.port,
            user=server.user,
            password=server.secret.encode(),
            database=server.database,
            connect_timeout=5,
            charset="utf8mb4",
            autocommit=False,
            init_command="SET time_zone = '+00:00', sql_mode = 'TRADITIONAL'",
            **tls,
        )
    except (pymysql.MySQLError, OSError) as failure:
        reason = str(failure.args[-1]) if failure.args else str(failure)
        raise away(server, reason) from None
    return connection


def away(server: Server, reason: str) -> IngestError:
    """A server that a flow needs does not answer."""
    return IngestError(
        "E-FLOW-SERVER",
        f"{server.shown} (`connections.{server.name}`) cannot be reached: {reason.removesuffix('.')}.",
        means="The flow waits for it; its batch comes again.",
        remedy="start it, or correct `connections` in the pipeline file.",
        may_pass=True,
    )


_open: dict[tuple[int, Server], pymysql.Connection[Cursor]] = {}
"""Of this process, by its id, as Spark's workers are forked: one each, in use by one thread at a time."""


@contextmanager
def transaction(server: Server) -> Iterator[Cursor]:
    """On a connection that is kept for the next one. Committed at the end, else taken back."""
    place = os.getpid(), server
    connection = _open.pop(place, None)
    if connection is not None:
        try:
            connection.ping(reconnect=False)
        except (pymysql.MySQLError, OSError):
            connection = None
    connection = connection or connect(server)
    try:
        connection.begin()
        with connection.cursor() as cursor:
            yield cursor
        connection.commit()
    except BaseException:
        with suppress(pymysql.MySQLError, OSError):
            connection.close()  # takes it back
        raise
    _open[place] = connection


def passes(failure: BaseException) -> bool:
    """Whether it may go better a moment later."""
    if isinstance(failure, IngestError):
        return failure.may_pass
    number = failure.args[0] if isinstance(failure, pymysql.MySQLError) and failure.args else None
    return number in _PASSING


def again() -> Retrying:
    """A few times, where it passes."""
    return Retrying(
        retry=retry_if_exception(passes),
        stop=stop_after_attempt(5),
        wait=wait_random_exponential(0.1, max=3),
        reraise=True,
    )
