"""Words counted in windows of ten minutes, every five, with late data and a watermark: the three output modes side by side."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from ingest.flows.flow_folder import FlowFolder
from ingest.recipes.stage import Stage, table

NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
TRIGGERS = (
    (5, ((2, "cat"), (2, "dog"), (3, "dog"), (3, "dog"))),
    (10, ((7, "owl"), (7, "cat"))),
    (15, ((11, "dog"), (13, "owl"), (14, "dog"), (9, "cat"))),
    (20, ((15, "cat"), (8, "dog"), (13, "owl"), (21, "owl"))),
    (25, ((4, "donkey"), (17, "owl"))),
)
"""The words of Spark's own guide: (minute at which Spark looks, what has come by then (minute of the word, word)). `12:08 dog` is
late, and within the watermark; `12:04 donkey` is behind it.
"""

QUERY = """SELECT window(at, '10 minutes', '5 minutes') window, word, count(*) count
FROM words GROUP BY window(at, '10 minutes', '5 minutes'), word
"""
MODES = ("append", "update", "complete")

Counts = Mapping[tuple[str, str], int]
"""Begin of a window (`12:05`) and a word, counted."""


def show(stage: Stage) -> dict[str, list[Counts]]:
    """Returns by mode what its table holds after each look."""
    (stage.folder / "word_count.sql").write_text(QUERY, encoding="utf-8")
    pipeline = stage.flows(**{mode: _flow(stage, mode) for mode in MODES})
    (stage.folder / "words").mkdir(exist_ok=True)
    queries = {mode: stage.query(pipeline, mode) for mode in MODES}
    running = {mode: query.start() for mode, query in queries.items()}
    seen: dict[str, list[Counts]] = {mode: [] for mode in MODES}
    try:
        for minute, words in TRIGGERS:
            stage.put("words", [{"at": _at(m).isoformat(), "word": word} for m, word in words])
            for query in running.values():
                query.processAllAvailable()
            for mode in MODES:
                seen[mode].append(counts(stage.rows(mode)))
            said = ", ".join(f"12:{m:02} {word}" for m, word in words)
            stage.say(_seen(f"12:{minute:02}  {said}", {mode: seen[mode][-1] for mode in MODES}))
    finally:
        for query in running.values():
            query.stop()
    for mode in MODES:
        stage.say(_late(stage, FlowFolder(pipeline, mode), mode))
    return seen


def _flow(stage: Stage, mode: str) -> dict[str, Any]:
    return {
        "sql": str(stage.folder / "word_count.sql"),
        "inputs": {
            "words": {
                "files": str(stage.folder / "words"),
                "columns": "at timestamp, word string",
                "event_time": "at",
                "watermark": "10 minutes",
            }
        },
        "mode": mode,
        "sinks": [{"delta": mode, "keys": ["window", "word"]}],
        "trigger": "1 second",
    }


def _at(minute: int) -> datetime:
    return NOON + timedelta(minutes=minute)


def counts(rows: list[dict[str, Any]]) -> Counts:
    """Of rows of the query."""
    return {(f"{row['window']['start']:%H:%M}", row["word"]): row["count"] for row in rows}


def _seen(title: str, now: Mapping[str, Counts]) -> Any:
    shown = table("window", "word", *MODES, title=title)
    for start, word in sorted({pair for found in now.values() for pair in found}):
        cells = [str(now[mode].get((start, word), "·")) for mode in MODES]
        end = datetime.strptime(start, "%H:%M").replace(tzinfo=timezone.utc) + timedelta(minutes=10)
        shown.add_row(f"{start} – {end:%H:%M}", word, *cells)
    return shown


def _late(stage: Stage, folder: FlowFolder, mode: str) -> str:
    rows = stage.rows(f"_ingest/flows/{folder.name}/late")
    if not rows:
        return f"{mode}: nothing was dropped"
    pairs = ", ".join(
        f"{row['event']} for {row['window']['start']:%H:%M} – {row['window']['end']:%H:%M}"
        for row in sorted(rows, key=lambda row: row["window"]["start"])
    )
    return f"{mode}: dropped behind the watermark {rows[0]['watermark']:%H:%M}: {pairs}"
