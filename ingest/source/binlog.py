"""MySQL's own log, asked what stands at a place in it. Needs the grants that a pipeline's user has."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pymysql
from pymysql.cursors import Cursor

from ingest.config.pipeline_file import Pipeline
from ingest.model.epochs import Epoch, newest_number
from ingest.model.position import Position, file_number
from ingest.model.position_ties import Event
from ingest.source import mysql


class MySqlLog:
    """The log of a pipeline's server. ``epochs``: all that are known; only positions of the newest can be looked up."""

    def __init__(self, pipeline: Pipeline, epochs: Sequence[Epoch]) -> None:
        self._pipeline = pipeline
        self._epoch = newest_number(epochs)

    def events(self, places: Collection[Position]) -> Mapping[Position, Event]:
        """See ``ports.Binlog``."""
        if not places:
            return {}
        with mysql.connected(self._pipeline.source) as cursor:
            cursor.execute("SHOW BINARY LOGS")
            files = {
                file_number(name): (str(name), int(size)) for name, size, *_ in cursor.fetchall()
            }
            return {
                place: Event(_kind(cursor, files[place.file][0], place.pos), files[place.file][1])
                for place in places
                if place.epoch == self._epoch and place.file in files
            }


def _kind(cursor: Cursor, file: str, pos: int) -> str:
    """Of the event that begins there; empty where none does, or MySQL does not say."""
    try:
        cursor.execute(f"SHOW BINLOG EVENTS IN %s FROM {int(pos)} LIMIT 1", (file,))
    except pymysql.OperationalError as failure:
        if failure.args and failure.args[0] in mysql.LOST:
            raise
        return ""  # such as 1220: the file is gone by now, or no event begins there
    except pymysql.MySQLError:
        return ""
    row = cursor.fetchone()
    return str(row[2]) if row and int(row[1]) == pos else ""
