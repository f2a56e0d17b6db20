"""Records read by Spark: every record, by all the rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ingest.batch import hidden_snapshots
from ingest.batch.job_descriptions import described, named
from ingest.batch.record_reader import ReaderJob, Reading, ReadRequest
from ingest.batch.stage_times import Stopwatch
from ingest.changes import batch_facts, dedup
from ingest.changes.kept_frames import free, keep
from ingest.kafka.ports import parts
from ingest.lake.quarantine import held_back
from ingest.model.position_ties import Tie
from ingest.schema.topic_owners import owners


class SparkReader:
    """The last reader: it leaves nothing."""

    def __init__(self, job: ReaderJob) -> None:
        self._job = job
        self._dedup = job.pipeline.dedup
        self._kept: list[DataFrame] = []

    def read(self, request: ReadRequest, watch: Stopwatch) -> tuple[Reading, Mapping[str, str]]:
        """Stage: ``decode``."""
        what = named(request.topics) or "what waits in quarantine"
        words = f"batch {request.note.batch_id}: {what}, read by Spark's columns"
        with described(self._job.session.sparkContext, words):
            return self._read(request, watch)

    def _read(self, request: ReadRequest, watch: Stopwatch) -> tuple[Reading, Mapping[str, str]]:
        changes = self._changes(request)
        facts, counts = batch_facts.gather(changes)
        hidden = hidden_snapshots.begun(facts, request)
        if hidden:
            topics = [self._job.pipeline.topic(table) for table in hidden]
            changes = changes.filter(~F.col("topic").isin(topics))
            facts, of_others = batch_facts.gather(changes)
            counts = replace(of_others, bytes=counts.bytes)
        watch.done("decode")
        streamed = counts.passed_over or any(one.high_water for one in facts.values())
        ties = self._ties(changes, request) if streamed else []
        read = Reading(facts, counts, changes=changes, ties=ties, hidden=hidden, size=counts.bytes)
        return read, {}

    def release(self) -> None:
        """Free what was kept for a batch."""
        for frame in self._kept:
            free(frame)
        self._kept = []

    def _changes(self, request: ReadRequest) -> DataFrame:
        note, previous = request.note, request.previous
        records = request.spark.read(note.ranges)
        records = records.coalesce(parts(note.ranges, self._job.session.sparkContext))
        epochs, touched = self._job.epochs, request.touched
        topics = None if note.replay else request.topics  # what waited may be of any
        known = {*request.catalog.versions, *request.aside}
        own = owners(known, topics, self._job.pipeline.topic)
        marked = batch_facts.marked(records, epochs, previous, touched, self._dedup.by, own)
        marked = dedup.set_aside(dedup.paused(marked, note.paused), request.aside)
        if request.spark.unseen is not None:
            marked = dedup.remembered(marked, request.spark.unseen)
        states = previous.tables if previous else {}
        changes = keep(held_back.replayable(marked, request.catalog, states, request.waiting))
        self._kept.append(changes)
        return changes

    def _ties(self, changes: DataFrame, request: ReadRequest) -> list[Tie]:
        """What waited in quarantine was looked at when it came."""
        if request.note.replay:
            return []
        marks = request.previous.high_water if request.previous else {}
        here = {place: marks[place] for place in request.touched if place in marks}
        return batch_facts.ties(changes, here)
