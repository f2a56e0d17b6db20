"""What a run has done so far, summed up from what it published. Pure."""

from __future__ import annotations

from collections import Counter
from copy import copy
from dataclasses import dataclass, field, fields, replace

from ingest.model.manifest import Entry
from ingest.observe.published import Published


@dataclass
class Totals:
    """Of one run, each by its label. ``newest``: the newest row of the manifest."""

    changes: Counter[str] = field(default_factory=Counter)
    """By outcome: `taken` (fresh ones, those that went to quarantine included), `quarantined`, `resent`, `remembered`, `late`."""
    by_reader: Counter[str] = field(default_factory=Counter)
    by_table: Counter[str] = field(default_factory=Counter)
    versions: Counter[str] = field(default_factory=Counter)
    batches: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    stages: dict[str, float] = field(default_factory=dict)
    gaps: Counter[str] = field(default_factory=Counter)
    restarts: Counter[str] = field(default_factory=Counter)
    upkeep: Counter[str] = field(default_factory=Counter)
    failures: int = 0
    """Of observing itself: an event or a sum that could not be made."""
    newest: Entry | None = None

    def take(self, what: Published) -> None:
        """Add what was published."""
        entry = what.entry
        self.newest = entry
        self.batches[entry.kind] += 1
        self.seconds += entry.seconds
        for stage, seconds in entry.stages.items():
            self.stages[stage] = self.stages.get(stage, 0.0) + seconds
        self.changes["taken"] += entry.changes
        self.changes["quarantined"] += entry.rejects
        self.changes["resent"] += entry.resent
        self.changes["remembered"] += entry.remembered
        self.changes["late"] += entry.late
        for name, state in what.touched.items():
            self.by_table[name] += state.changes
            self.by_reader[what.reader(name)] += state.changes
        self.versions.update(what.versions)
        self.gaps["opened"] += len(what.opened)
        self.gaps["closed"] += len(what.closed)

    def copy(self) -> Totals:
        """The same, which later batches do not change."""
        return replace(
            self,
            **{
                one.name: copy(getattr(self, one.name))
                for one in fields(self)
                if isinstance(getattr(self, one.name), dict)
            },
        )
