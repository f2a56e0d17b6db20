"""A table in a local folder that Spark commits to: what is asked of it between commits, its log answers.

Spark would compute the table's whole state for each of these answers, in a job of three stages that takes longer to plan than a small
table takes to write.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from ingest.lake.delta import read_back
from ingest.lake.delta.delta_log import Action
from ingest.lake.delta.delta_rs_table import DeltaRsTable
from ingest.lake.delta.spark_table import SparkTable


@dataclass(frozen=True)
class WrittenBySpark:
    """A ``TableHandle``. ``log``: of the same table; ``features``: it had when it was looked at, all of them such that we may commit to it."""

    spark: SparkTable
    log: DeltaRsTable
    features: frozenset[str]

    @property
    def path(self) -> str:
        """As the lake names it."""
        return self.spark.path

    def version(self) -> int:
        """See ``TableHandle.version``; so for the others."""
        return self.log.version()

    def id(self) -> str:
        """As of the last look at its version; so is the next."""
        return self.log.id()

    def committed(self, app_id: str) -> int | None:
        """See ``TableHandle.committed``."""
        return self.log.committed(app_id)

    def commits(self, start: int) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        """See ``TableHandle.commits``."""
        return self.log.commits(start)

    def metadata_at(self, version: int) -> Action | None:
        """See ``TableHandle.metadata_at``."""
        return self.log.metadata_at(version)

    def identified(self, app_id: str, version: int, note: str) -> AbstractContextManager[None]:
        """See ``TableHandle.identified``: Spark makes the commit."""
        return self.spark.identified(app_id, version, note)

    def make_lasting(self, start: int) -> None:
        """See ``TableHandle.make_lasting``."""
        self.log.make_lasting(start)

    def schema_json(self) -> str:
        """As of the last look at its version."""
        return str(self.log.state.metadata["schemaString"])

    def read_back(self, app_id: str, version: int, start: int | None = None) -> None:
        """See ``TableHandle.read_back``: bounds that Spark leaves out or rounds."""
        read_back.read_back(self, app_id, version, start)

    def restate(self, of: int, files: Sequence[Action], marker: tuple[str, int]) -> None:
        """See ``read_back.Written``. Where the table has got another feature meanwhile, by whomever, Delta itself makes it."""
        able = self.log.features() == self.features
        (self.log if able else self.spark).restate(of, files, marker)
