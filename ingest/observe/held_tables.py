"""Tables of the lake as their logs show them, read by delta-rs: for what is asked without Spark."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import DeltaError, TableNotFoundError

from ingest.config.pipeline_file import Pipeline
from ingest.lake.delta.delta_snapshot import asked_of_writers
from ingest.lake.delta.delta_sql import queried
from ingest.lake.files.object_files import opened
from ingest.model.location import delta_rs_folder, delta_rs_place, local_folder
from ingest.model.names import KEY_PROPERTY, RESERVED_COLUMN, TARGET_PROPERTY
from ingest.model.topics import TableId
from ingest.observe.lake_plan import HeldTable
from ingest.targets import registry
from ingest.targets.target import live_rows

_DELTA_NAMES = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint"}
"""Delta's own names of types to Spark's, where they differ."""


def held(path: str) -> HeldTable | None:
    """The table there; None where there is none."""
    try:
        with _readable(path) as place:
            table = opened(place)
    except TableNotFoundError:
        return None
    fields = json.loads(table.schema().to_json())["fields"]
    actions = pa.table(table.get_add_actions(flatten=True))
    sizes, rows = actions.column("size_bytes"), actions.column("num_records")
    asked = table.protocol()
    multiset = _is_multiset(fields)
    return HeldTable(
        {f["name"]: _spark_name(f["type"]) for f in fields if f["name"] != RESERVED_COLUMN},
        multiset,
        int(pc.sum(rows).as_py() or 0),
        int(pc.sum(sizes).as_py() or 0),
        asked_of_writers(asked.min_writer_version, asked.reader_features, asked.writer_features),
        delta_rs_place(path) is not None,
        registry.noted(table.metadata().configuration, keyed=not multiset),
        tuple(json.loads(table.metadata().configuration.get(KEY_PROPERTY, "[]"))),
        noted=TARGET_PROPERTY in table.metadata().configuration,
    )


def _is_multiset(fields: Iterable[Mapping[str, Any]]) -> bool:
    """Whether rows are told apart by all their columns, as a table without a key has it."""
    own = next((one for one in fields if one["name"] == RESERVED_COLUMN), None)
    return own is not None and any(part["name"] == "content" for part in own["type"]["fields"])


def outlives(pipeline: Pipeline, table: TableId) -> bool:
    """Whether a table's copy is there and keeps rows that the source no longer has (``Target.outlives``)."""
    kept_as = {keyed: pipeline.target(table, keyed=keyed) for keyed in (True, False)}
    if not any(target.outlives for target in kept_as.values()):
        return False
    try:
        with _readable(pipeline.path(table)) as place:
            fields = json.loads(opened(place).schema().to_json())["fields"]
    except TableNotFoundError:
        return False
    except (DeltaError, OSError):
        return True  # one that cannot be read is not taken again by itself either (``batch.outliving``)
    return kept_as[not _is_multiset(fields)].outlives


def rows(path: str) -> int:
    """How many rows any table has, as its log says; 0 where there is none."""
    try:
        with _readable(path) as place:
            actions = pa.table(opened(place).get_add_actions(flatten=True))
    except TableNotFoundError:
        return 0
    return int(pc.sum(actions.column("num_records")).as_py() or 0)


def live(path: str, table: HeldTable) -> int:
    """How many of its rows count. Where delta-rs cannot read them, all that its log names, those that are marked as
    deleted or dead included.
    """
    if not table.bytes:
        return 0
    condition = live_rows(table.target) if table.target else "true"
    try:
        (found,) = queried(opened(path), f"SELECT count(*) AS n FROM rows WHERE {condition}")
    except Exception:  # noqa: BLE001 - whichever of its errors: a feature or a name of a folder that it does not read
        return table.rows
    return int(found["n"])


@contextmanager
def _readable(path: str) -> Iterator[str]:
    """Where delta-rs can read a table's log: there, or in a copy under a name that it takes."""
    folder = local_folder(path)
    if folder is None or folder == delta_rs_folder(path) or not (folder / "_delta_log").is_dir():
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="ingest-plan-") as copy:
        shutil.copytree(folder / "_delta_log", Path(copy) / "_delta_log")
        yield copy


def _spark_name(delta: Any) -> str:
    if isinstance(delta, str):
        return _DELTA_NAMES.get(delta, delta)
    inner = ",".join(f"{f['name']}:{_spark_name(f['type'])}" for f in delta["fields"])
    return f"struct<{inner}>"
