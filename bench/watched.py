"""What a lake and a job's processes have become, seen from outside, and whether a figure of them grows."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import psutil
from deltalake import DeltaTable

from ingest.model.names import INTERNAL_FOLDER, manifest_path

STEADY = 0.10
"""A figure that grows by no more than this part of its mean over the second half of a run is called bounded. What is written and
removed in turns goes up and down by more than that, its line hardly."""


NOTED, SECONDS = "so-far.json", "seconds of a batch"


@dataclass(frozen=True)
class Series:
    """One figure, look by look. ``at``: the batch of each look."""

    name: str
    at: tuple[int, ...]
    values: tuple[float, ...]

    @property
    def growth(self) -> float:
        """By the line through the second half of the looks, least squares: how much that rises from its first look to its last, as
        a part of their mean. 0 where there are fewer than two.
        """
        at, values = self.at[len(self.at) // 2 :], self.values[len(self.at) // 2 :]
        middle, mean = (fmean(at), fmean(values)) if at else (0.0, 0.0)
        spread = sum((one - middle) ** 2 for one in at)
        if not spread or not mean:
            return 0.0
        both = zip(at, values, strict=True)
        slope = sum((one - middle) * (value - mean) for one, value in both) / spread
        return slope * (at[-1] - at[0]) / mean

    @property
    def is_bounded(self) -> bool:
        """As :data:`STEADY` has it."""
        return self.growth <= STEADY

    def __str__(self) -> str:
        half = self.values[len(self.values) // 2 :]
        verdict = "bounded" if self.is_bounded else "GROWING"
        return (
            f"{self.name:<34}{verdict:<9}{self.growth:+8.1%} over the second half, there {min(half):,.4g} to "
            f"{max(half):,.4g}, at its end {half[-1]:,.4g}"
        )


@dataclass
class Run:
    """What was noted. ``since``: when it began, in seconds since 1970; ``looks``: from outside; ``batches``: what the process said of each; ``turns``: seconds of old and young
    batches that took turns; ``kills``: after which batch; ``upkeep``: how often what was done.
    """

    since: float = field(default_factory=time.time)
    looks: list[dict[str, float]] = field(default_factory=list)
    batches: list[dict[str, Any]] = field(default_factory=list)
    turns: dict[str, list[float]] = field(default_factory=dict)
    kills: list[int] = field(default_factory=list)
    upkeep: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)

    def took(self, said: Mapping[str, Any]) -> None:
        """One more batch."""
        one = dict(said)
        self.upkeep.update(one.pop("upkeep"))
        self.failed += one.pop("failed")
        self.batches.append(one)

    def note(self, folder: Path) -> None:
        """Write what was found so far, for whoever watches, and for a run that goes on with it."""
        (folder / NOTED).write_text(json.dumps(vars(self)))

    @classmethod
    def so_far(cls, folder: Path) -> Run:
        """What an earlier run in this folder had found when it was ended."""
        if not (file := folder / NOTED).exists():
            return cls()
        found = json.loads(file.read_text())
        return cls(**{**found, "upkeep": Counter(found["upkeep"])})


def lake(folder: Path, tables: Sequence[str], growing: str | None = None) -> dict[str, float]:
    """Files and megabytes below a lake: ``tables`` below ``d``, all files of which are data, old versions too, or log. ``growing``:
    the one with ever more rows, whose live bytes are apart.
    """
    found = dict[str, float]()
    live, live_bytes, growing_bytes = 0, 0, 0
    files, held, logs = 0, 0, 0
    for table in tables:
        at = folder / "d" / table
        sizes = _live(at)
        live += len(sizes)
        data, log = _below(at)
        files, held, logs = files + len(data), held + sum(data), logs + len(log)
        if table == growing:
            growing_bytes += sum(sizes)
        else:
            live_bytes += sum(sizes)
    manifest = Path(manifest_path(str(folder)))
    data, log = _below(manifest)
    own, _ = _below(folder / INTERNAL_FOLDER, but=manifest)
    found |= {
        "live files of tables": live,
        "files of tables": files,
        "MB of live files": live_bytes / 1e6,
        **({f"MB of live files of {growing}": growing_bytes / 1e6} if growing else {}),
        "MB of old versions": (held - live_bytes - growing_bytes) / 1e6,
        "files of tables' logs": logs,
        "live files of the manifest": len(_live(manifest)),
        "files of the manifest": len(data),
        "MB of the manifest": sum(data) / 1e6,
        "files of the manifest's log": len(log),
        "MB of the manifest's log": sum(log) / 1e6,
        "other files of _ingest": len(own),
    }
    return found


def processes(pid: int) -> dict[str, float]:
    """Memory in megabytes, threads and open file descriptors of a driver and of its Java."""
    found = dict[str, float]()
    driver = psutil.Process(pid)
    java = [one for one in driver.children(recursive=True) if one.name() == "java"]
    for who, all_ in {"Python": [driver], "Java": java}.items():
        found[f"MB of memory, {who}"] = sum(one.memory_info().rss for one in all_) / 1e6
        found[f"threads, {who}"] = sum(one.num_threads() for one in all_)
        found[f"file descriptors, {who}"] = sum(one.num_fds() for one in all_)
    return found


def series(looks: Sequence[Mapping[str, float]]) -> list[Series]:
    """Of looks, each with its ``batch``: every figure but that one."""
    at = tuple(int(one["batch"]) for one in looks)
    names = [name for name in (looks[0] if looks else {}) if name not in ("batch", "at")]
    return [Series(name, at, tuple(one[name] for one in looks)) for name in names]


def _live(table: Path) -> list[int]:
    if not (table / "_delta_log").is_dir():
        return []
    return [
        int(one) for one in DeltaTable(table).get_add_actions().column("size_bytes").to_pylist()
    ]


def _below(folder: Path, but: Path | None = None) -> tuple[list[int], list[int]]:
    """Bytes of its files: those outside of its log, those within."""
    data, log = list[int](), list[int]()
    for at, _, names in os.walk(folder):  # which passes over folders that go meanwhile
        there = Path(at)
        if but is not None and there.is_relative_to(but):
            continue
        for name in names:
            with suppress(FileNotFoundError):
                size = (there / name).stat().st_size
                (log if "_delta_log" in there.parts else data).append(size)
    return data, log
