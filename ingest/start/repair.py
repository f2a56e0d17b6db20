"""Mending what a start finds, until a decision is left under which to stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ingest.batch.micro_batch import Batches
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.files import durability
from ingest.lake.files.hadoop_files import raise_if_passing
from ingest.model.errors import IngestError
from ingest.model.location import local_folder
from ingest.model.start_facts import StartFacts
from ingest.start.start_decision import Refuse, Start, decide
from ingest.start.upgrade import Upgrade


def mended(
    spark: SparkSession,
    batches: Batches,
    look: Callable[[], StartFacts],
    say: Callable[[str], None],
    refuse_lost: Callable[[], None],
    upgrade: Upgrade | None = None,
    decided: Callable[[Start], None] = lambda _: None,
) -> tuple[Start, StartFacts]:
    """Gather, decide, mend, and look again after each thing that changes the lake. ``refuse_lost`` raises when a successor
    has taken the lease; ``upgrade``: of a lake that an
    earlier commit of ours may have filled; ``decided`` hears of each decision that is acted on.

    Raises :class:`IngestError` (``E-START-REFUSED``) when going on could lose or repeat changes.
    """
    tables = _Tables(spark, refuse_lost)
    while True:
        facts = replace(look(), unrestorable=frozenset(tables.unrestorable))
        _make_lasting(facts)
        decision = decide(facts)
        if isinstance(decision, Refuse):
            raise IngestError(
                "E-START-REFUSED",
                f"Pipeline {facts.pipeline!r} cannot start: {decision.reason}.",
                means="Going on could lose or repeat changes; nothing was touched.",
                remedy=f"{decision.remedy}.",
            )
        batches.tables.set_aside(decision.aside)
        facts = replace(facts, lake=[one for one in facts.lake if one.name not in decision.aside])
        if upgrade is not None and upgrade.put_right(facts):
            continue
        decided(decision)
        for sentence in decision.because:
            say(sentence)
        if decision.finish is not None:
            batches.finish(decision.finish)
            continue
        if decision.restore and decision.entry is None:  # what is beyond the manifest
            tables.restore(decision.restore)
            continue
        if upgrade is not None:
            doubtful = upgrade.entry(facts)
            if doubtful is not None:
                batches.rewind(doubtful)
                continue
            upgrade.done()
        if decision.entry is not None:
            batches.rewind(decision.entry)
        if decision.restore:
            tables.restore(decision.restore)
            continue
        return decision, facts


def _make_lasting(facts: StartFacts) -> None:
    """What a job before this one has committed and not published may not be on the disk, and is about to be rested upon."""
    published = facts.newest.versions if facts.newest else {}
    ahead = [path for path, at in facts.versions.items() if published.get(path, -1) < at]
    durability.everything(folder for folder in map(local_folder, ahead) if folder)


@dataclass
class _Tables:
    """Brings tables (path) back to versions. ``unrestorable``: what was not possible, so that it is decided upon without."""

    session: SparkSession
    refuse_lost: Callable[[], None]
    unrestorable: set[tuple[str, int]] = field(default_factory=set)
    _done: set[tuple[str, int]] = field(default_factory=set)

    def restore(self, wanted: Sequence[tuple[str, int]]) -> None:
        """Each once: what is asked for again was of no use."""
        for place in wanted:
            if place in self._done or not self._is_restored(*place):
                self.unrestorable.add(place)
            self._done.add(place)

    def _is_restored(self, path: str, version: int) -> bool:
        """False where that version's log or files are gone, or no commit came of it. Raises what may pass: the version is there, it may be.
        The lease is asked for before each: a RESTORE is refused by no fence (``SparkTable.restore``).
        """
        table = SparkTable(self.session, path)
        before = table.version()
        self.refuse_lost()
        try:
            table.restore(version)
        except (PySparkException, Py4JJavaError) as failure:
            raise_if_passing(path, failure)
            return False
        return table.version() == before + 1
