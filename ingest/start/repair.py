"""Mending what a start finds, until a decision is left under which to stream."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import SparkSession

from ingest.batch.micro_batch import Batches
from ingest.lake.delta.spark_table import SparkTable
from ingest.model.errors import IngestError
from ingest.model.start_facts import StartFacts
from ingest.start.start_decision import Refuse, Start, decide
from ingest.start.upgrade import Upgrade


def mended(
    spark: SparkSession,
    batches: Batches,
    look: Callable[[], StartFacts],
    say: Callable[[str], None],
    upgrade: Upgrade | None = None,
    decided: Callable[[Start], None] = lambda _: None,
) -> tuple[Start, StartFacts]:
    """Gather, decide, mend, and look again after each thing that changes the lake. ``upgrade``: of a lake that an
    earlier commit of ours may have filled; ``decided`` hears of each decision that is acted on.

    Raises :class:`IngestError` (``E-START-REFUSED``) when going on could lose or repeat changes.
    """
    while True:
        facts = look()
        decision = decide(facts)
        if isinstance(decision, Refuse):
            raise IngestError(
                "E-START-REFUSED",
                f"Pipeline {facts.pipeline!r} cannot start: {decision.reason}.",
                means="Going on could lose or repeat changes; nothing was touched.",
                remedy=f"{decision.remedy}.",
            )
        if upgrade is not None and upgrade.put_right(facts):
            continue
        decided(decision)
        for sentence in decision.because:
            say(sentence)
        if decision.finish is not None:
            batches.finish(decision.finish)
            continue
        for path, version in decision.restore:
            SparkTable(spark, path).restore(version)
        if decision.restore:
            continue
        if upgrade is not None:
            doubtful = upgrade.entry(facts)
            if doubtful is not None:
                batches.rewind(doubtful)
                continue
            upgrade.done()
        if decision.entry is not None:
            batches.rewind(decision.entry)
        return decision, facts
