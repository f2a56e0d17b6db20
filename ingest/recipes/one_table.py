"""From MySQL's binlog to a Delta table, in twenty lines of Python: the pipeline as a library."""

from __future__ import annotations

from contextlib import closing

from deltalake import DeltaTable

from ingest.lake.delta.delta_sql import queried
from ingest.recipes.stage import Stage, table

LINES = """import json
from pathlib import Path

from ingest.config import pipeline_file
from ingest.job.run import Run


def copy(mysql: str, password: Path, kafka: str, connect: str, table: str, lake: Path) -> None:
    settings = {
        "name": "recipe",
        "source": {"mysql": mysql, "password": {"file": str(password)}, "tables": [table]},
        "kafka": {"bootstrap_servers": kafka},
        "connect": {"url": connect},
        "lake": {"path": str(lake)},
        "spark": {"master": "local[2]", "driver_memory": "1g"},
    }
    pipeline = pipeline_file.parse(json.dumps(settings))
    Run(pipeline, lake / "spark.log", print, lambda batch: print(batch.entry.changes)).execute(once=True)
"""
"""What is run, and shown."""


def show(stage: Stage) -> list[tuple[int, str]]:
    """Returns the table's rows in the lake."""
    stack = stage.stack
    database = stack.mysql()
    with closing(database.admin()) as connection, connection.cursor() as cursor:
        for statement in (
            "DROP DATABASE IF EXISTS recipe",
            "CREATE DATABASE recipe",
            "CREATE TABLE recipe.notes (id INT PRIMARY KEY, text VARCHAR(40))",
            "INSERT INTO recipe.notes VALUES (1, 'first'), (2, 'second'), (3, 'third')",
            "UPDATE recipe.notes SET text = 'changed' WHERE id = 2",
            "DELETE FROM recipe.notes WHERE id = 3",
        ):
            cursor.execute(statement)
    stage.say(LINES)
    made: dict[str, object] = {}
    exec(compile(LINES, "one_table.py", "exec"), made)  # noqa: S102 (the very lines that are shown)
    copy = made["copy"]
    assert callable(copy)
    copy(
        f"mysql://ingest@127.0.0.1:{database.port}",
        database.secret("ingest"),
        stage.broker,
        stack.connect().url,
        "recipe.notes",
        stage.folder / "lake",
    )
    lake = DeltaTable(stage.folder / "lake" / "recipe" / "notes")
    rows = [
        (row["id"], row["text"]) for row in queried(lake, "SELECT id, text FROM rows ORDER BY id")
    ]
    shown = table("id", "text")
    for number, text in rows:
        shown.add_row(str(number), text)
    stage.say(shown)
    return rows
