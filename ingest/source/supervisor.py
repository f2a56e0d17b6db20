"""Watching the connector while a job runs: noticing that it stands still, and restarting it.

``connector.state`` says RUNNING when its task has failed, and even the task says RUNNING after its
binlog connection is gone (seen with Debezium 3.6). So three facts are gathered (task state, whether the
server has a binlog stream of ours, whether a snapshot is under way) and ``diagnose`` decides;
``connector_news`` says what a person is told of it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from ingest.model import reasons
from ingest.model.errors import Exit, IngestError
from ingest.model.position import Position
from ingest.model.topics import TableId
from ingest.source import failing_table, mysql
from ingest.source.connector import Connector, is_snapshotting, streaming_position
from ingest.source.connector_news import Look, News, delivers, told
from ingest.source.diagnosis import Action, Diagnosis, Facts, diagnose, named_unknown
from ingest.source.left_out import excluding

LOOK_EVERY = 3.0
"""Seconds between two looks."""
SETTLED_AFTER = 10.0
"""Seconds that a restarted task is given before its failure counts again."""
_BACKOFF = (0.0, 5.0, 15.0, 30.0, 60.0)
"""Seconds between restarts, the last one repeated."""


def look_of(facts: Facts, diagnosis: Diagnosis, now: float, restarts: int = 0) -> Look:
    """What of one look matters for what is told. Where MySQL cannot be asked, nobody knows whether records come."""
    return Look(
        now,
        wrong=tuple(filter(None, (facts.unasked, diagnosis.sentence))),
        runs=facts.runs,
        streams=bool(facts.streams) and not facts.snapshotting,
        place=facts.offset if facts.snapshotting else None,
        restarts=restarts,
    )


class Supervisor:
    """Looks at a connector now and then, tells what is wrong (``connector_news``), restarts with backoff."""

    def __init__(
        self,
        connector: Connector,
        say: Callable[[str], None],
        epoch: int = 0,
        unknown: Callable[[Iterable[TableId]], None] | None = None,
        leave_out: Callable[[TableId, str], None] | None = None,
    ) -> None:
        """``unknown`` notes tables that the connector's task has failed at, as it did not know them, for whoever has them
        taken whole; None where nobody has, and what is passed over would be lost. ``leave_out`` notes a table, with why, at
        whose change the task fails, before the connector leaves it out; None where the run is to stop then.
        """
        self._leave_out = leave_out
        self._acting = threading.Lock()  # a batch, too, says that no table joins any more
        self._ran = False
        self._unknown = unknown
        self._connector = connector
        self._epoch = epoch
        self._streaming: Position | None = None
        self._say = say
        self._next_look = 0.0
        self._silent_since: float | None = None
        self._unknown_since: float | None = None
        self._restarts = 0
        self._next_restart = 0.0
        self._news = News()
        self._tried: dict[str, float] = {}

    def look(self) -> None:
        """Look if it is time. Raises :class:`IngestError` for a cause that cannot pass."""
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + LOOK_EVERY
        try:
            facts = self._facts(now)
        except IngestError as failure:  # Connect away: changes wait in MySQL, the job goes on
            self._tell(Look(now, (failure.what,), restarts=self._restarts))
            return
        diagnosis = diagnose(facts)
        look = look_of(facts, diagnosis, now, self._restarts)
        self._tell(look)
        try:
            with self._acting:
                self._act(diagnosis, now, facts)
        except IngestError as failure:
            if not failure.may_pass:
                raise
            self._tell(replace(look, wrong=(*look.wrong, failure.what)))

    def _act(self, diagnosis: Diagnosis, now: float, facts: Facts) -> None:
        self._ran = self._ran or facts.runs
        if diagnosis.action is Action.STOP and not self._goes_on(diagnosis, now, facts):
            raise IngestError(
                "E-CONNECTOR-FAILED",
                f"Connector {self._connector.name!r}: {diagnosis.sentence}.",
                means="What reached Kafka is applied; later changes wait in MySQL's binlog.",
                remedy=f"{diagnosis.remedy}.",
                exit_code=Exit.FAILED,
            )
        if diagnosis.action is Action.RESTART:
            self._restart(now)
        elif diagnosis.action is Action.JOIN:
            assert self._unknown is not None
            self._unknown(named_unknown(facts.status))  # before a change of it is passed over
            self._pass_over(on=True)
            self._restart(now)
        elif diagnosis.action is Action.BEGIN_AGAIN:
            self._say(diagnosis.sentence)
            self._connector.begin_again()
        elif diagnosis.action is Action.CREATE:
            # Without its stored offset it begins with a snapshot, which takes nothing twice.
            self._connector.apply()

    def _goes_on(self, diagnosis: Diagnosis, now: float, facts: Facts) -> bool:
        """By another try, or without the one table that the task fails at. A task that has not run in this run may have failed
        before somebody mended its cause: it is tried first.
        """
        tried = self._ran or not self._is_worth_a_try(diagnosis, now)
        return not tried or self._leaves_out(facts, now) or self._is_worth_a_try(diagnosis, now)

    def _leaves_out(self, facts: Facts, now: float) -> bool:
        """Each table once: where the task still fails at it, leaving it out does not help."""
        if self._leave_out is None or facts.status is None:
            return False
        pipeline, cause = self._connector.pipeline, facts.status.cause.rstrip(".")
        table = failing_table.whose(pipeline, facts.status.trace, facts.offset)
        if table is None or excluding(table) in self._connector.leaves_out:
            return False
        self._leave_out(table, cause)  # before a change of it is passed over
        before = self._connector.leaves_out
        self._connector.leaves_out = (*before, excluding(table))
        try:
            self._connector.apply()
        except IngestError:  # where Connect does not answer it is tried again at the next look
            self._connector.leaves_out = before
            raise
        why = reasons.LEFT_BY_CONNECTOR
        self._say(f"{table}: {why.of(words=cause)}. The others go on. What helps: {why.remedy}")
        self._next_restart = (
            now  # a task that has failed does not begin anew by another configuration alone (seen)
        )
        self._restart(now)
        return True

    def none_joins(self) -> None:
        """No table joins any more: from here on the connector's task fails where it does not know one."""
        with self._acting:
            if self._connector.passes_over:
                self._pass_over(on=False)

    def _pass_over(self, *, on: bool) -> None:
        """Has the connector do so; where Connect does not answer it is tried again at the next look."""
        self._connector.passes_over = on
        try:
            self._connector.apply()
        except IngestError:
            self._connector.passes_over = not on
            raise

    def streaming(self, *, now: bool = False) -> Position | None:
        """Where in the log the connector is known to stream; None while it takes a snapshot.

        As of the newest look, or of this very moment.
        """
        if now:
            try:
                self._streaming = streaming_position(self._connector.offset(), self._epoch)
            except IngestError:  # Connect is away: what is known stays known
                return self._streaming
        return self._streaming

    def _is_worth_a_try(self, diagnosis: Diagnosis, now: float) -> bool:
        """Once per run: the failure may be of before somebody mended its cause."""
        if diagnosis.remedy not in self._tried:
            self._tried[diagnosis.remedy] = now
            self._restart(now)
        return now - self._tried[diagnosis.remedy] < SETTLED_AFTER

    def _facts(self, now: float) -> Facts:
        status = self._connector.status()
        offset = self._connector.offset()
        self._streaming = streaming_position(offset, self._epoch)
        snapshotting, unasked = is_snapshotting(offset), ""
        try:
            streams: int | None = mysql.dump_threads(self._connector.pipeline.source)
        except IngestError as failure:
            streams, unasked = None, failure.what
        if streams == 0 and not snapshotting:
            self._silent_since = self._silent_since or now
        else:
            self._silent_since = None
        self._unknown_since = (self._unknown_since or now) if status is None else None
        silent = now - self._silent_since if self._silent_since else 0.0
        unknown = now - self._unknown_since if self._unknown_since else 0.0
        passes_over = self._connector.passes_over or self._unknown is None
        return Facts(status, snapshotting, streams, silent, unknown, unasked, offset, passes_over)

    def _restart(self, now: float) -> None:
        if now < self._next_restart:
            return
        if self._restarts < len(_BACKOFF):  # later ones are counted in what is told of the trouble
            self._say(f"restarting the connector (try {self._restarts + 1})")
        self._connector.restart()
        self._silent_since = None
        self._restarts += 1
        pause = _BACKOFF[min(self._restarts, len(_BACKOFF) - 1)]
        self._next_restart = now + pause

    def _tell(self, look: Look) -> None:
        if delivers(self._news.last, look):
            self._restarts = 0
        self._news, sentences = told(self._news, look)
        for sentence in sentences:
            self._say(sentence)
