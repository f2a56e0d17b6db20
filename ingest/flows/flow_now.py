"""How flows are now, for whoever only asks: what each has said last, and whether the process that said so still lives.

A process that is killed says nothing any more, so its last word may be that it runs. Its lease tells.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from ingest.config.pipeline_file import Pipeline
from ingest.flows.flow_folder import FlowFolder
from ingest.flows.flow_record import FlowStatus
from ingest.lake.files import lease_folder, lease_holder
from ingest.lake.files.lease_folder import Look
from ingest.lake.files.lease_holder import Holder
from ingest.lake.files.storage import files_at


@dataclass(frozen=True)
class FlowLooks:
    """A first look at each flow's lease. A holder that lives is seen by its counter, which moves while other things are asked."""

    pipeline: Pipeline
    seen: Mapping[str, Look]

    @classmethod
    def first(cls, pipeline: Pipeline) -> FlowLooks:
        """Now."""
        folders = {name: FlowFolder(pipeline, name) for name in pipeline.flows}
        return cls(
            pipeline, {name: lease_folder.look(files_at(f.lease)) for name, f in folders.items()}
        )

    def status(self) -> dict[str, FlowStatus]:
        """How each is that has ever run. All are watched at once: one whose process is on another machine and stands still takes seconds."""
        folders = [FlowFolder(self.pipeline, name) for name in self.seen]
        with ThreadPoolExecutor(max_workers=max(1, len(folders))) as pool:
            found = zip(self.seen, pool.map(self._of, folders), strict=True)
            return {name: one for name, one in found if one is not None}

    def _of(self, folder: FlowFolder) -> FlowStatus | None:
        said = folder.status()
        if said is None or said.state != "runs":
            return said
        held = lease_holder.holder(files_at(folder.lease), self.seen[folder.name])
        # Who ends says so before it gives the lease back: what it says now is its last word.
        return judged(folder.status() or said, held)


def judged(said: FlowStatus, held: Holder) -> FlowStatus:
    """What a flow has said, by who holds its lease. Pure."""
    if said.state != "runs" or held.state == "runs":
        return said
    if held.state == "silent":
        seconds = lease_holder.SILENT_AFTER
        error = f"{held.owner or 'a process'} holds its lease and has not moved for {seconds:.0f} s"
        return replace(said, state="silent", error=error)
    error = "the process that ran it has ended without saying so; the next one goes on with it"
    return replace(said, state="died", error=error)
