"""Epochs of a lake's source, kept in the lake, and the moment at which a new one begins."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ingest.config.pipeline_file import Pipeline
from ingest.kafka import broker
from ingest.lake.files.storage import Files, files_at
from ingest.model.epochs import Epoch, Moved, after_losses, following
from ingest.model.errors import Exit, IngestError
from ingest.model.manifest import Entry, Place
from ingest.model.names import epochs_path
from ingest.model.start_facts import KafkaFacts
from ingest.source import mysql
from ingest.source.connector import Connector, Plan


class EpochRegistry:
    """``<lake>/_ingest/epochs``: one small file per epoch, written once but for :meth:`over_losses`. Beside it stands
    which topics its offsets are of, and which they were before, since earlier versions read the file itself.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline

    def known(self) -> list[Epoch]:
        """All epochs, oldest first."""
        files = self._files()
        names = set(files.names(""))
        texts = [files.read(name) for name in names if name.endswith(".json")]
        found = [Epoch.from_json(text) for text in texts if text]
        noted = [_noted(one, files, names) for one in found]
        return sorted(noted, key=lambda epoch: epoch.number)

    def over_losses(self, newest: Entry | None, kafka: Mapping[Place, KafkaFacts]) -> list[Epoch]:
        """All epochs, their boundaries put right where Kafka gives offsets anew (``epochs.after_losses``).

        To be called before the manifest says that it does: a crash in between finds the same again, and the other
        way round nobody would know any more which topic it was that is gone.
        """
        known = self.known()
        found = after_losses(known, newest, kafka)
        for before, now in zip(known, found, strict=True):
            if now != before:  # what it was first: written twice, it says the same
                self._files().write(_beside(now.number, "moved"), _moved_as_json(now.moved))
                self._files().write(f"{now.number}.json", now.as_json())
        return found

    def follow(self, connector: Connector, say: Callable[[str], None]) -> Plan:
        """Apply the connector; when another server stands behind it, begin a new epoch first.

        Everything after the boundary is read from the new log, since the connector stands still while it is drawn.
        Everything before it was read from the old one unless the connector has gone over by itself, as one does whose
        server's name moves while it runs. What it has brought by then is of the old epoch, and refused where it does not
        stand behind that log (``dedup.marked``).
        """
        server = mysql.server_uuid(self.pipeline.source)
        epochs = self.known()
        if not epochs:
            self._add(following([], server, "the first log", {}))
            return connector.apply(say)
        if epochs[-1].server == server:
            plan = connector.apply(say)
            _go_on_behind(epochs[-1], connector, say)
            return plan
        refuse_without_gtids(self.pipeline)
        say(f"another MySQL server answers (server_uuid {server}); a new epoch of the log begins")
        if connector.status() is not None:
            connector.stop()
        self.begin(server, f"server {epochs[-1].server} was replaced", continues=True)
        plan = connector.apply(say)
        connector.resume()
        return plan

    def begin(self, server: str, reason: str, *, continues: bool) -> Epoch:
        """A new epoch from here on. The connector must be stopped."""
        topics = [*broker.data_topics(self.pipeline), self.pipeline.name]
        ends = broker.end_offsets(self.pipeline, topics)
        ids = broker.topic_ids(self.pipeline, sorted({topic for topic, _ in ends}))
        known = self.known()
        epoch = following(known, server, reason, ends, continues=continues, topics=ids)
        return self._add(epoch)

    def _add(self, epoch: Epoch) -> Epoch:
        if epoch.topics:  # first: without its epoch it says nothing
            self._files().write(_beside(epoch.number, "topics"), json.dumps(dict(epoch.topics)))
        if not self._files().create(f"{epoch.number}.json", epoch.as_json()):
            raise IngestError(
                "E-EPOCH-EXISTS",
                f"Epoch {epoch.number} of {self.pipeline.name!r} was begun by another job just now.",
                means="Nothing was changed by this one.",
                remedy="run again.",
                exit_code=Exit.FAILED,
            )
        return epoch

    def _files(self) -> Files:
        return files_at(epochs_path(self.pipeline.lake.path))


def _go_on_behind(epoch: Epoch, connector: Connector, say: Callable[[str], None]) -> None:
    """A start that ended between a failover's epoch and the resume behind it (Debezium could not reach the new server yet, or a
    kill) left the connector stopped, which no configuration ends. One that is paused a person has paused. Behind an epoch that
    does not continue the log, the stored offset may be of the log before: ``ingest resync --all`` forgets it last.
    """
    status = connector.status() if epoch.number and epoch.continues else None
    if status is None or status.connector != "STOPPED":
        return
    say(
        "the connector was stopped, as a new epoch began of which the start did not come to its end; it goes on"
    )
    connector.resume()


def _beside(number: int, what: str) -> str:
    return f"{number}.{what}"


def _noted(epoch: Epoch, files: Files, names: set[str]) -> Epoch:
    """With what stands beside its file; that is nothing where an earlier version has begun it."""
    topics, moved = (
        json.loads(files.read(name) or "null") if name in names else None
        for name in (_beside(epoch.number, "topics"), _beside(epoch.number, "moved"))
    )
    placed = tuple(
        Moved((one["topic"], one["partition"]), one["start"], one["batch"]) for one in moved or ()
    )
    return replace(epoch, topics=dict(topics or {}), moved=placed)


def _moved_as_json(moved: Sequence[Moved]) -> str:
    return json.dumps(
        [
            {
                "topic": one.place[0],
                "partition": one.place[1],
                "start": one.start,
                "batch": one.batch,
            }
            for one in moved
        ]
    )


def refuse_without_gtids(pipeline: Pipeline) -> None:
    """Raise when a server cannot take over from another: positions alone mean nothing there."""
    facts = mysql.server_facts(pipeline.source)
    if facts.gtid_mode == "ON":
        return
    raise IngestError(
        "E-SOURCE-REPLACED",
        "Another MySQL server answers than the one this lake was filled from, and it has no GTIDs.",
        means="Where the old log ended in the new one cannot be known; nothing was started.",
        remedy="point `source.mysql` back to the old server, or take every table again with "
        "`ingest resync FILE --all`.",
    )
