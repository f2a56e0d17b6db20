"""A flow that cron runs: each run takes in what has come since the last one, ends, and the next goes on, also where the trigger was changed meanwhile."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta, timezone
from typing import Any

from ingest.flows.flow_runs import FlowRun
from ingest.recipes.stage import Stage, table

BEGIN = datetime(2026, 1, 1, 3, tzinfo=timezone.utc)
QUERY = "SELECT customer, count(*) orders, sum(total) total FROM orders GROUP BY customer\n"


def show(stage: Stage) -> list[tuple[int, int, int]]:
    """Returns of each run its newest batch, the rows that it took in, and the orders that are counted in all."""
    (stage.folder / "totals.sql").write_text(QUERY, encoding="utf-8")
    seen, shown = list[tuple[int, int, int]](), table("run", "batch", "rows", "orders in all")
    arrivals = ((3, "10 seconds"), (2, "10 seconds"), (0, "10 seconds"), (4, "1 minute"))
    made = 0
    for hour, (files, trigger) in enumerate(arrivals):
        for _ in range(files):
            rows = [
                {"customer": ("anna", "ben", "cleo")[n % 3], "total": n}
                for n in range(made, made + 5)
            ]
            stage.put("orders", rows)
            made += 5
        pipeline = stage.flows(totals=_flow(stage, trigger))
        run = FlowRun(stage.spark, pipeline, "totals", stage.say, threading.Event())
        run.once()
        orders = sum(row["orders"] for row in stage.rows("totals"))
        seen.append((run.status.batch, run.status.rows, orders))
        at = BEGIN + timedelta(hours=hour)
        shown.add_row(f"{at:%H:%M}", *(str(n) if n >= 0 else "–" for n in seen[-1]))
    stage.say(shown)
    stage.say(
        "as in a crontab: 0 * * * *  ingest flow run pipeline.yaml totals --once",
    )
    return seen


def _flow(stage: Stage, trigger: str) -> dict[str, Any]:
    return {
        "sql": str(stage.folder / "totals.sql"),
        "inputs": {
            "orders": {
                "files": str(stage.folder / "orders"),
                "columns": "customer string, total bigint",
                "at_once": 1,
            }
        },
        "mode": "update",
        "sinks": [{"delta": "totals", "keys": ["customer"]}],
        "trigger": trigger,
    }
