"""In which moment a blocking snapshot has read a table, as far as that can be known.

Its rows carry the place of the last change that was streamed before. Debezium 3.6.1 reads them as of a later moment, when it has
its lock, and streams what was committed in between afterwards, too (tests/capability/test_debezium_moments.py: of 3,567 rows that
two clients were inserting, 3,173 came both ways). Of a table with a key that does no harm, as the later of two states of a row
wins. Of one without a key a row would stand there twice. Debezium does not say what the moment was; it lies before the moment
in which we hear that it reads the table.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from ingest.config.pipeline_file import Pipeline
from ingest.model.epochs import newest_number
from ingest.model.errors import IngestError
from ingest.model.position import Position
from ingest.source import mysql
from ingest.source.connector import Connector, delivered
from ingest.source.epoch_registry import EpochRegistry


@dataclass
class ReadMoments:
    """Of one job; by request. After a crash they are taken later than need be, which makes more changes doubtful."""

    pipeline: Pipeline
    _ends: dict[str, mysql.Reached] = field(default_factory=dict)
    _in_kafka: set[str] = field(default_factory=set)

    def heard(self, requests: Collection[str]) -> None:
        """The connector reads, or has read, the tables of these."""
        new = [one for one in requests if one not in self._ends]
        if not new:
            return
        try:
            with mysql.connected(self.pipeline.source) as cursor:
                self._ends.update(dict.fromkeys(new, mysql.reached(cursor)))
        except IngestError:
            return  # MySQL is away; a later moment does as well

    def upper(self, request: str) -> Position | None:
        """Where MySQL's log ended behind that moment; None until all changes up to there are in Kafka."""
        end = self._ends.get(request)
        if end is None or not self._is_in_kafka(request, end):
            return None
        epoch = newest_number(EpochRegistry(self.pipeline).known())
        return Position(epoch, end.file, end.pos)

    def _is_in_kafka(self, request: str, end: mysql.Reached) -> bool:
        if request not in self._in_kafka:
            try:
                offset = Connector(self.pipeline).offset()
            except IngestError:
                return False  # Connect is away
            if delivered(offset, end):
                self._in_kafka.add(request)
        return request in self._in_kafka
