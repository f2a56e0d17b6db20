"""A step's changes into its table, by the engine that fits (``engine_choice.choose``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from ingest.config.spark_settings import Wanted
from ingest.lake.delta.delta_rs_table import DeltaRsTable
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.delta.table_handle import TableHandle
from ingest.lake.engines import registry
from ingest.lake.engines.engine import Engine, EngineJob, Merge
from ingest.lake.engines.engine_choice import Choice, MergeFacts, choose
from ingest.lake.engines.reached_tables import ReachedTables


class Merging:
    """MERGEs of one job. ``choices``: by table's path, what made its last MERGE, and why."""

    def __init__(self, job: EngineJob) -> None:
        self.choices: dict[str, Choice] = {}
        self._job = job
        self._kinds = registry.ENGINES
        self._engines: dict[str, Engine] = {kind.name: kind(job) for kind in self._kinds}

    def merge(self, merge: Merge) -> None:
        """Gather facts, choose, merge once. Where the engine turns out not to be able to, the last one does it: should
        the commit have been made all the same, it finds the identity there, and makes none.
        """
        facts = self._facts(merge)
        made = self._once(choose(self._kinds, facts), merge, facts)
        if isinstance(made, str):
            made = self._once(Choice(self._kinds[-1].name, made), merge, facts)
            assert isinstance(made, Choice)
        self.choices[merge.table.path] = made

    def handle(self, table: SparkTable) -> TableHandle:
        """The table by whichever engine is cheapest to ask: the first that reaches it."""
        handles = (engine.handle(table) for engine in self._engines.values())
        return next(handle for handle in handles if handle is not None)

    def writable(self, table: SparkTable) -> DeltaRsTable | None:
        """The table as it is now, where delta-rs reaches it and writes all of its features, whoever merges. Raises
        :class:`TornCommitError`.
        """
        return self._job.reached.writable(table)

    @property
    def reached(self) -> ReachedTables:
        """The lake's tables, as far as delta-rs reaches them, whoever writes to them."""
        return self._job.reached

    @property
    def opened(self) -> Sequence[DeltaRsTable]:
        """Tables that were merged into and that maintenance can put in order."""
        return self._job.reached.merged

    @property
    def left_to_spark(self) -> Mapping[str, int]:
        """See ``ReachedTables.left_to_spark``."""
        return self._job.reached.left_to_spark

    @property
    def wanted(self) -> Wanted:
        """What the pipeline file says of engines."""
        return self._job.wanted

    def _facts(self, merge: Merge) -> MergeFacts:
        known = MergeFacts(
            self._job.wanted,
            self._job.profile,
            bytes_of_changes=merge.source.bytes,
            key=tuple(merge.key.values()),
            replaces=bool(merge.replaces),
            stays=merge.source.pieces is not None,
        )
        looks = (engine.look for engine in self._engines.values())
        return reduce(lambda facts, look: look(merge.table, facts), looks, known)

    def _once(self, choice: Choice, merge: Merge, facts: MergeFacts) -> Choice | str:
        """The MERGE, unless its commit is there; by which mode, or why this engine was not able to make it."""
        engine = self._engines[choice.engine]
        handle, modes = engine.handle(merge.table), list[Choice | None]()
        assert handle is not None
        try:
            self._job.committer.once(
                handle,
                merge.identity,
                lambda: modes.append(engine.merge(merge, facts)),
                may_do_nothing=engine.may_do_nothing,
            )
        except Exception as failure:
            unable = engine.unable(failure)
            if unable is None:
                raise
            return unable
        return next(filter(None, modes), choice)
