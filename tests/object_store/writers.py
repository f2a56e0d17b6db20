"""Three who commit to one table in an object store: Spark, delta-rs, and this project's own committer. Each commit says whose it is, and each
writer what it was told of it.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from deltalake import CommitProperties, write_deltalake
from pyspark.sql import SparkSession

from ingest.lake.delta.commit import sibling
from ingest.lake.delta.other_writers import ForeignCommitError
from ingest.lake.engines import merge_on_read
from ingest.model.names import RESERVED_COLUMN, Marker, quoted_for_delta_rs
from ingest.targets import mirror
from tests.support.direct_lake import META
from tests.support.remote_lake import RemoteLake

COLUMNS = {"id": pa.int64(), "v": pa.string()}
SHARED = -1
"""The key of a row that each of our commits changes, but for those that append."""
WAYS = ("append", "merge", "mark")
_TRIES = 50


@dataclass
class Told:
    """By the label of a commit, which its entry has as ``userMetadata`` and its row in ``v``: what its writer was told of it."""

    confirmed: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    """Somebody else had made that version; the writer looked again and made another commit of it."""
    refused: dict[str, str] = field(default_factory=dict)
    """Another failure, in a word."""
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def of(self, label: str, commit: Callable[[], object]) -> bool:
        """Notes what becomes of a commit. False where it met another's."""
        try:
            commit()
        except ForeignCommitError:
            self.conflicts.append(label)
            return False
        except Exception as failure:  # noqa: BLE001 - whichever: what is not confirmed may be there or not, but once
            self.refused[label] = f"{label.partition(' ')[0]}: {_kind(failure)}"
        else:
            self.confirmed.append(label)
        return True

    @property
    def failures(self) -> dict[str, int]:
        return dict(Counter(self.refused.values()))


def _kind(failure: Exception) -> str:
    """Its class; of Java's the innermost one that is told."""
    java = getattr(failure, "java_exception", None)
    while java is not None and java.getCause() is not None:
        java = java.getCause()
    return java.getClass().getSimpleName() if java is not None else type(failure).__name__


class Writer(Protocol):
    """``name``: its labels begin with it; ours say after it in which way the commit was made, too."""

    name: str

    def commit(self) -> None:
        """One row more."""


class BySpark:
    """By whatever log store Spark has for the path."""

    def __init__(self, spark: SparkSession, path: str, told: Told) -> None:
        self.name, self.spark, self.path, self.told = "spark", sibling(spark), path, told

    def commit(self) -> None:
        n = next(self.told.numbers)
        label = f"{self.name} {n}"
        rows = self.spark.createDataFrame([(n, label)], "id long, v string").coalesce(1)
        writer = rows.write.format("delta").mode("append").option("userMetadata", label)
        self.told.of(label, lambda: writer.save(self.path))


class ByDeltaRs:
    """By its own writer."""

    def __init__(self, path: str, options: dict[str, str], told: Told) -> None:
        self.name, self.path, self.options, self.told = "delta-rs", path, options, told

    def commit(self) -> None:
        n = next(self.told.numbers)
        label = f"{self.name} {n}"
        meta = pa.nulls(1, META)
        row = pa.table({"id": pa.array([n]), "v": [label], RESERVED_COLUMN: meta})
        properties = CommitProperties({"userMetadata": label}, max_commit_retries=_TRIES)
        self.told.of(
            label,
            lambda: write_deltalake(
                self.path,
                row,
                mode="append",
                storage_options=self.options,
                commit_properties=properties,
            ),
        )


class Ours(RemoteLake):
    """As a batch commits: rows by delta-rs in a scratch or by marks (deletion vectors), and the commit itself by a conditional put of ours
    (``delta_log.write``). The three :data:`WAYS` in turn.
    """

    def __init__(self, name: str, path: str, room: Path, told: Told) -> None:
        self.name, self.uri, self.room, self.told = name, path, room / name, told
        self.columns, self._steps, self._pos = COLUMNS, 0, 0
        self._turns = itertools.cycle(WAYS)
        self.open()

    def commit(self) -> None:
        n, way = next(self.told.numbers), next(self._turns)
        for turn in range(_TRIES):
            label = f"{self.name}:{way} {n}.{turn}"
            if self.told.of(label, partial(self._step, n, label, way)):
                return

    def begin(self, way: str) -> None:
        """The row that is shared; ``way``: ``mark`` leaves a table with deletion vectors."""
        self._step(SHARED, "begun", way)

    def _step(self, n: int, label: str, way: str) -> None:
        self._steps += 1
        self.table.version()
        # Behind the look: of two commits the later one has the later place in the source's log.
        self._pos = _later()
        marker = Marker(1, self._steps, 3).version
        with self.table.identified(f"ingest/p/{self.name}/d.t/mirror", marker, label):
            {"append": self._append, "merge": self._merge, "mark": self._mark}[way](n, label)

    def _append(self, n: int, label: str) -> None:
        self.table.append(self.rows({"id": [n], "v": [label]}))

    def _merge(self, n: int, label: str) -> None:
        plan = mirror.mirror_plan([*self.columns], ["id"], quoted_for_delta_rs)
        self.table.merge(self._with_shared(n, label), plan, prune=["id"])

    def _mark(self, n: int, label: str) -> None:
        rows = self._with_shared(n, label)
        assert merge_on_read.mark(self.table, mirror.Mirror(), rows, ["id"], always=True)

    def _with_shared(self, n: int, label: str) -> pa.Table:
        keys = sorted({n, SHARED})
        return self.rows({"id": keys, "v": [label] * len(keys)}, "u")


_places, _lock = itertools.count(1), threading.Lock()


def _later() -> int:
    with _lock:
        return next(_places) * 10
