"""An alert where somebody falls silent: state of one's own with a timer, by `transformWithState`.

Each sensor's newest event sets a timer, which the next one moves. A sensor whose timer runs out, by the watermark and not by any clock, has
said nothing for ten minutes.
"""

from __future__ import annotations

import importlib.util
from datetime import datetime, timedelta, timezone
from typing import Any

from ingest.model.errors import IngestError
from ingest.recipes.stage import Stage, table

NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
FUNCTION = """from collections.abc import Iterator

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

SILENT = 10 * 60 * 1000


class Silence(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.last = handle.getValueState("last", "at long")

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        moments = sorted(int(row.at.timestamp() * 1000) for row in rows)
        if self.last.exists():
            before = self.last.get()[0]
            moments = [before, *(one for one in moments if one > before)]
            self.handle.deleteTimer(before + SILENT)
        # What comes in one batch with the end of a silence is told of here, since its timer is gone by then.
        for earlier, later in zip(moments, moments[1:]):
            if later - earlier > SILENT:
                yield Row(sensor=key[0], silent_since=earlier // 1000)
        self.last.update((moments[-1],))
        self.handle.registerTimer(moments[-1] + SILENT)

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo) -> Iterator[Row]:
        yield Row(sensor=key[0], silent_since=self.last.get()[0] // 1000)
        self.last.clear()

    def close(self) -> None:
        pass


def alerts(events: DataFrame) -> DataFrame:
    grouped = events.groupBy("sensor")
    return grouped.transformWithState(
        Silence(), "sensor string, silent_since long", "Append", "EventTime"
    )
"""


def show(stage: Stage) -> list[tuple[str, str]]:
    """Returns the alerts: sensor, and since when it was silent."""
    refuse_without_packages()
    (stage.folder / "silence.py").write_text(FUNCTION, encoding="utf-8")
    pipeline = stage.flows(silence=_flow(stage))
    spoken = (
        [(0, "door"), (1, "roof"), (2, "cellar")],
        [(8, "door"), (9, "roof")],
        [(20, "door")],
        [(21, "door")],
    )
    for number, events in enumerate(spoken):
        rows = [
            {"at": (NOON + timedelta(minutes=m)).isoformat(), "sensor": sensor}
            for m, sensor in events
        ]
        stage.put("events", rows)
        said = ", ".join(f"12:{m:02} {sensor}" for m, sensor in events)
        # Each time by a process that remembers nothing: the state is in the checkpoint.
        stage.query(pipeline, "silence", number + 1).start(once=True).awaitTermination()
        stage.say(f"{said:<36} {len(stage.rows('alerts'))} alerts so far")
    found = sorted(
        (row["sensor"], f"{datetime.fromtimestamp(row['silent_since'], timezone.utc):%H:%M}")
        for row in stage.rows("alerts")
    )
    shown = table("sensor", "silent since")
    for sensor, since in found:
        shown.add_row(sensor, since)
    stage.say(shown)
    return found


def refuse_without_packages() -> None:
    """Raises :class:`IngestError` where Spark's own needs are not met."""
    missing = [one for one in ("pandas", "google.protobuf") if not _has(one)]
    if missing:
        raise IngestError(
            "E-RECIPE-PACKAGES",
            f"State in Python needs {' and '.join(missing)}, which is not installed.",
            remedy="pip install 'ingest[state]', then run it again.",
        )


def _has(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # of a package's package
        return False


def _flow(stage: Stage) -> dict[str, Any]:
    return {
        "python": f"{stage.folder / 'silence.py'}:alerts",
        "inputs": {
            "events": {
                "files": str(stage.folder / "events"),
                "columns": "at timestamp, sensor string",
                "event_time": "at",
                "watermark": "0 seconds",
            }
        },
        "sinks": [{"delta": "alerts"}],
    }
