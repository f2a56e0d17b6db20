"""A lake of a few tables and its manifest, both real, written by delta-rs as a job does: no Spark, no Kafka."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import SparkSession

from ingest.lake.delta.commit import Committer, Identity
from ingest.lake.delta.delta_rs_table import DeltaRsTable
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.manifest import next_entry
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.lake.manifest.manifest_writer import Publisher
from ingest.model.manifest import Entry, HighWater, Kind, Place, TableState
from ingest.model.names import INTERNAL_FOLDER, Marker, Role, app_id, scratch_path
from ingest.model.position import Position
from ingest.model.start_facts import CheckpointFacts, KafkaFacts, LakeFacts, Note, StartFacts
from ingest.model.topics import TableId
from ingest.schema.catalog import SchemaVersion
from ingest.start import gather_facts, look_at_table
from ingest.start.start_decision import Decision, Refuse, Start, decide
from ingest.testing.lake import pipeline_at
from tests.support.declared_tables import ID
from tests.support.direct_lake import META

NO_SPARK = cast("SparkSession", None)


class Crash(Exception):
    """The job dies here."""


class SmallLake:
    """Tables `d.NAME`, each a list of the offsets that were applied to it, as often as they were: what is applied twice,
    or never, shows. ``checkpoint_id``: under which its batches are made; ``steps``: in how many commits a table.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.pipeline = pipeline_at(root)
        self.committer = Committer(1)
        self.checkpoint_id, self.steps = "abc", 1
        self.kafka: dict[Place, KafkaFacts] = {}

    def folder(self, name: str) -> Path:
        return self.root / "d" / name

    def table(self, name: str) -> SparkTable:
        return SparkTable(NO_SPARK, str(self.folder(name)))

    def commit(self, name: str, note: Note, *ids: int, step: int = 3) -> int:
        """One commit to a table, which is made when it is not there, unless its marker stands there already; returns the
        table's version.
        """
        table = self.table(name)
        if not table.exists():
            made = SchemaVersion(
                TableId("d", name), Position(0, 1, 4), "CREATE", (ID,), ("id",), ""
            )
            table.create(made, ("id",))
        direct, app, held = self._opened(name, note.checkpoint_id)
        marker = Marker(self.committer.term, note.batch_id, step)
        if held.place >= marker.place:
            return direct.version()
        place = {"epoch": 0, "file": 1, "pos": marker.batch, "row": 0, "part": 1}
        meta = [{"position": place, "op": "c", "committed_at": None}] * len(ids)
        rows = {"id": pa.array(ids, pa.int32()), "_ingest": pa.array(meta, META)}
        with direct.identified(app, marker.version, note.as_json()):
            direct.append(pa.table(rows))
        return direct.version()

    def fence(self, name: str) -> None:
        """A successor puts its term into a table, and keeps batch and step."""
        direct, app, held = self._opened(name, self.checkpoint_id)
        self.committer = Committer(self.committer.term + 1)
        with direct.identified(app, Marker(self.committer.term, *held.place).version, ""):
            direct.append(pa.table({"id": pa.array([], pa.int32()), "_ingest": pa.array([], META)}))

    def _opened(self, name: str, checkpoint_id: str) -> tuple[DeltaRsTable, str, Marker]:
        direct = DeltaRsTable(self.table(name), Path(scratch_path(str(self.root))))
        direct.version()
        app = app_id("p", checkpoint_id, f"d.{name}", Role.MIRROR)
        return direct, app, Marker.parse(direct.committed(app) or 0)

    def note(self, ends: Mapping[str, int]) -> Note:
        """Of the next batch, which takes topics up to there."""
        newest = self.newest
        held = newest.ends if newest else {}
        places = {(f"p.d.{name}", 0): end for name, end in ends.items()}
        ranges = {place: (held.get(place, 0), end) for place, end in places.items()}
        return Note((newest.batch_id if newest else 0) + 1, self.checkpoint_id, ranges)

    def batch(self, ends: Mapping[str, int], kind: Kind = "batch") -> Entry:
        """The next one: topics up to there, a row for each offset, the manifest's row at last."""
        return self.apply(self.note(ends), kind=kind)

    def apply(self, note: Note, *, kind: Kind = "batch", crash: int = -1) -> Entry:
        """A batch, or what a crash has left of it. ``crash``: after so many commits."""
        before = self.newest or next_entry.before_the_first(self.checkpoint_id)
        tables, marks = dict(before.tables), dict(before.high_water)
        tables = {name: replace(state, changes=0) for name, state in tables.items()}
        at = Position(0, 1, note.batch_id)
        for (topic, _), (start, end) in note.ranges.items():
            name = topic.removeprefix("p.d.")
            for step in range(self.steps):
                if crash == 0:
                    raise Crash
                ids = range(start, end)[step :: self.steps]
                version, crash = self.commit(name, note, *ids, step=4 * step + 3), crash - 1
            id_ = str(DeltaTable(self.folder(name)).metadata().id)
            settled = Position(0, 0, 0)
            tables[f"d.{name}"] = TableState(
                str(self.folder(name)), version, 1, at, id=id_, snapshot=settled
            )
            marks[topic, 0] = HighWater(end, at, "", name)
            self.kafka.setdefault((topic, 0), KafkaFacts(0, 1000, name))
        offsets = {place: (end, end) for place, end in before.ends.items()} | dict(note.ranges)
        entry = replace(
            before,
            batch_id=note.batch_id,
            checkpoint_id=note.checkpoint_id,
            offsets=offsets,
            high_water=marks,
            tables=tables,
            kind=kind,
            term=self.committer.term,
            changes=len(note.ranges),
            position=at,
        )
        self.publish(entry)
        return entry

    def start(self) -> Start | Refuse:
        """As a run begins: decide and mend until a decision is left under which to stream; returns that."""
        self.committer = Committer(self.committer.term + 1)
        unrestorable = frozenset[tuple[str, int]]()
        for _ in range(9):
            decision = self.decide(unrestorable=unrestorable)
            if isinstance(decision, Refuse):
                return decision
            if decision.finish:
                self.apply(decision.finish)
                continue
            if decision.entry:
                entry = decision.entry
                self.publish(entry.without_changes("rewind", entry.batch_id, self.committer.term))
            for path, version in decision.restore:
                try:
                    DeltaTable(path).restore(version)
                except DeltaError:
                    unrestorable |= {(path, version)}
            if decision.restore:
                continue
            if not decision.resume:
                self.checkpoint_id = uuid.uuid4().hex[:8]
            return decision
        raise AssertionError(decision)

    def publish(self, entry: Entry) -> None:
        app = app_id("p", entry.checkpoint_id, INTERNAL_FOLDER, Role.MANIFEST)
        publisher = Publisher(NO_SPARK, str(self.root), Committer(self.committer.term))
        publisher.add(entry, Identity(app, entry.batch_id))

    @property
    def newest(self) -> Entry | None:
        return Ledger(str(self.root)).last()

    def copy(self, name: str) -> Path:
        """Of a folder of the lake: a table's, or `_ingest/manifest`."""
        to = self.root.parent / "copies" / str(len(list(self.root.parent.glob("copies/*"))))
        return Path(shutil.copytree(self._at(name), to))

    def bring_back(self, name: str, copy: Path) -> None:
        shutil.rmtree(self._at(name))
        shutil.copytree(copy, self._at(name))

    def _at(self, name: str) -> Path:
        return self.root / name if "/" in name else self.folder(name)

    def restore(self, name: str, version: int) -> None:
        DeltaTable(self._at(name)).restore(version)

    def look(self, name: str) -> LakeFacts:
        found = look_at_table.look(
            self.table(name), f"d.{name}", self.pipeline, Ledger(str(self.root)), self.newest
        )
        assert found is not None
        return found

    def facts(self, **more: Any) -> StartFacts:
        """As a start finds them, under a checkpoint that goes on."""
        newest, lake = self.newest, [self.look(name) for name in self.names]
        ends = newest.ends if newest else {}
        given: dict[str, Any] = {
            "pipeline": "p",
            "shape": "stateless",
            "checkpoint": CheckpointFacts(self.checkpoint_id, "p", "stateless", 3, ends, "", ends),
            "newest": newest,
            "history": gather_facts.history(Ledger(str(self.root)), lake),
            "lake": lake,
            "kafka": self.kafka,
            "topic_of": gather_facts.topics_of(self.pipeline, newest),
            "taken": {f"d.{name}": f"p.d.{name}" for name in self.names},
        }
        return StartFacts(**(given | more))

    def gaps(self) -> set[str]:
        """Tables that are to be taken again."""
        return {gap.table for gap in (self.newest.gaps if self.newest else ()) if gap.is_open}

    @property
    def names(self) -> list[str]:
        known = [name.removeprefix("d.") for name in (self.newest.tables if self.newest else {})]
        return sorted({*known, *(one.name for one in (self.root / "d").iterdir())})

    def decide(self, **more: Any) -> Decision:
        return decide(self.facts(**more))

    def rows(self, name: str) -> list[int]:
        return sorted(pa.table(DeltaTable(self.folder(name)).to_pyarrow_table())["id"].to_pylist())
