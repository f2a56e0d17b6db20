"""Where a flow keeps what is its own, in the lake: small files, its checkpoints, its late table, its lease."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from ingest.config.pipeline_file import Pipeline
from ingest.flows.continuity import Fingerprint
from ingest.flows.flow_record import FlowRecord, FlowStatus
from ingest.lake.files import durability
from ingest.lake.files.storage import Files, files_at
from ingest.model.location import local_folder
from ingest.model.names import flow_path, join

_CHECKPOINT = "checkpoint-"
_NOTED, _KEPT, _LOGS = "noted-", 20, "logs"
"""Of batches, in a folder for each generation, of so many; and of change logs, beside them."""
_RECORD, _STATUS, _IDENTITY = "flow.json", "status.json", "ingest.identity"


@dataclass(frozen=True)
class FlowFolder:
    """Of one flow, in the lake."""

    pipeline: Pipeline
    name: str

    @property
    def path(self) -> str:
        """The folder."""
        return flow_path(self.pipeline.lake.path, self.name)

    @property
    def late(self) -> str:
        """The table of what came late."""
        return join(self.path, "late")

    @property
    def refused(self) -> str:
        """The table of rows that a sink's server refuses."""
        return join(self.path, "refused")

    @property
    def lease(self) -> str:
        """Who may run it."""
        return join(self.path, "lease")

    @property
    def files(self) -> Files:
        """Small ones."""
        return files_at(self.path)

    def checkpoint(self, record: FlowRecord) -> str:
        """Spark's own."""
        return join(self.path, f"{_CHECKPOINT}{record.generation}")

    def record(self) -> FlowRecord | None:
        """None where the flow has never begun."""
        text = self.files.read(_RECORD)
        if text is None:
            return None
        said = json.loads(text)
        fingerprint, tables = Fingerprint.from_json(said["fingerprint"]), tuple(said["tables"])
        epochs = tuple((sink, int(epoch)) for sink, epoch in said.get("epochs", {}).items())
        return FlowRecord(said["generation"], said["checkpoint"], fingerprint, tables, epochs)

    def generations(self) -> int:
        """The highest number of a checkpoint that is there, whether there is a record or not; 0 for none."""
        named = (name.removeprefix(_CHECKPOINT) for name in self.files.names(""))
        return max((int(one) for one in named if one.isdigit()), default=0)

    def has_planned(self) -> bool:
        """Whether Spark has planned a batch under any checkpoint that is there. A first start that was killed between a checkpoint's id and the record
        leaves one without.
        """
        numbers = range(1, self.generations() + 1)
        folders = (join(self.path, f"{_CHECKPOINT}{number}") for number in numbers)
        return any(files_at(folder).names("offsets") for folder in folders)

    def logged(self, record: FlowRecord) -> int:
        """The newest batch that Spark has planned; -1 before the first."""
        return self._newest(record, "offsets")

    def done(self, record: FlowRecord) -> int:
        """The newest batch that Spark has noted as done; -1 before the first."""
        return self._newest(record, "commits")

    def offsets(self, record: FlowRecord, number: int) -> Sequence[str]:
        """Where each source ends in a batch, as Spark has logged it, a line each; none for a batch that it has not planned."""
        text = self._inside(record).read(f"offsets/{number}")
        return (text or "").splitlines()[2:]

    def noted(self, record: FlowRecord, number: int) -> str | None:
        """What was noted of a batch before it was worked out; None where nothing was."""
        return self.files.read(f"{_NOTED}{record.generation}/{number}") if number >= 0 else None

    def note(self, record: FlowRecord, number: int, text: str) -> None:
        """For good, and before anything of the batch is written. Those of long ago go."""
        folder = f"{_NOTED}{record.generation}"
        self.files.write(f"{folder}/{number}", text)
        for name in self.files.names(folder):
            if name.isdigit() and int(name) < number - _KEPT:
                self.files.delete(f"{folder}/{name}")

    def logs_noted(self, record: FlowRecord) -> str | None:
        """How far change logs were read (``read_logs``), as it was noted last; None where it never was."""
        return self.files.read(f"{_NOTED}{record.generation}/{_LOGS}")

    def note_logs(self, record: FlowRecord, text: str) -> None:
        """The same, for good."""
        self.files.write(f"{_NOTED}{record.generation}/{_LOGS}", text)

    def has_state(self, record: FlowRecord) -> bool:
        """Whether Spark keeps any."""
        return bool(self._inside(record).names("state"))

    def _newest(self, record: FlowRecord, part: str) -> int:
        names = self._inside(record).names(part)
        return max((int(one) for one in names if one.isdigit()), default=-1)

    def _inside(self, record: FlowRecord) -> Files:
        return files_at(self.checkpoint(record))

    def make_lasting(self, record: FlowRecord, number: int) -> None:
        """What a batch is made of outlasts a power cut, before anything is written of it: were it planned anew with other rows, its
        number would be taken for written.
        """
        place = local_folder(self.checkpoint(record))
        if place is not None:
            durability.files([place / "offsets" / str(number)])

    def holds(self, record: FlowRecord) -> bool:
        """Whether the checkpoint is the record's. Its id is inside it: without it Spark would number batches from 0 again, and each would
        be taken for one that is there.
        """
        return self._inside(record).read(_IDENTITY) == record.checkpoint_id

    def keep(self, record: FlowRecord) -> None:
        """For good; its id inside its checkpoint first."""
        self._inside(record).write(_IDENTITY, record.checkpoint_id)
        said = {
            "generation": record.generation,
            "checkpoint": record.checkpoint_id,
            "fingerprint": record.fingerprint.as_json(),
            "tables": record.tables,
            "epochs": dict(record.epochs),
        }
        self.files.write(_RECORD, json.dumps(said, indent=1))

    def status(self) -> FlowStatus | None:
        """What it said last. None where it has never run."""
        text = self.files.read(_STATUS)
        if text is None:
            return None
        said = json.loads(text)
        return FlowStatus(**{**said, "operators": tuple(said["operators"])})

    def say(self, status: FlowStatus) -> None:
        """For whoever asks. Nothing depends on it."""
        self.files.write(_STATUS, json.dumps(status.as_json()), lasting=False)
