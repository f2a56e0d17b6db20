"""How long the stages of a batch take."""

from __future__ import annotations

import time


class Stopwatch:
    """Seconds per stage, in order, by a clock that never goes back."""

    def __init__(self) -> None:
        self._started = self._last = time.monotonic()
        self.stages: dict[str, float] = {}

    def done(self, stage: str) -> None:
        """What has passed since the stage before belongs to this one."""
        now = time.monotonic()
        self.stages[stage] = self.stages.get(stage, 0.0) + now - self._last
        self._last = now

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._started
