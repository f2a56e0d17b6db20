"""Whether a job keeps a lake now, for whoever only wants to know. Nothing is written, and nobody is judged for good."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ingest.lake.files import lease_folder
from ingest.lake.files.lease import BEAT_EVERY
from ingest.lake.files.lease_folder import Look, look
from ingest.lake.files.owner import Owner, process
from ingest.lake.files.storage import Files

SILENT_AFTER = 3 * BEAT_EVERY
"""Seconds in which a living holder's counter is seen to move, unless its machine stands still."""
_LOOK_EVERY = 0.2


State = Literal["runs", "none", "gone", "silent"]
_SAID: dict[State, str] = {
    "runs": "{owner} keeps the lake (term {term})",
    "none": "none runs; `ingest run` goes on where the last one ended",
    "gone": "{owner} has died; `ingest run` takes over",
    "silent": "{owner} holds the lease and has not moved for {seconds:.0f} s; a standby, or `ingest run`, takes over when it stays so",
}


@dataclass(frozen=True)
class Holder:
    """``gone``: its process has ended on this very machine, without giving the lease back; ``silent``: its counter stood still."""

    state: State
    term: int = 0
    owner: Owner | None = None

    @property
    def sentence(self) -> str:
        """For people."""
        owner = self.owner or "a job"
        return _SAID[self.state].format(owner=owner, term=self.term, seconds=SILENT_AFTER)

    def as_json(self) -> dict[str, object]:
        """For ``--json``."""
        of = {"host": self.owner.host, "pid": self.owner.pid} if self.owner else {}
        return {"state": self.state, "term": self.term, **of}


def holder(files: Files, first: Look, pause: Callable[[float], object] = time.sleep) -> Holder:
    """Who holds the lease, by a look from before and as many now as it takes; :data:`SILENT_AFTER` seconds at most."""
    held = first
    for _ in range(math.ceil(SILENT_AFTER / _LOOK_EVERY)):
        now = look(files)
        owner = lease_folder.owner(files, now.term)
        if now.is_free:
            return Holder("none", now.term)
        if owner and owner.is_surely_gone(Owner.this_process(), process(owner.pid)):
            return Holder("gone", now.term, owner)
        if now != held:
            return Holder("runs", now.term, owner)
        pause(_LOOK_EVERY)
    return Holder("silent", held.term, owner)
