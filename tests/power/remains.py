"""What a start can find of a lake that was cut off, and when two such lakes are one to it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from ingest.lake.delta import delta_log
from ingest.lake.delta.delta_log import TornCommitError
from ingest.model.names import scratch_path


def likeness(lake: Path) -> bytes:
    """The same for two lakes of which a start can find the same: names and contents of all files, but for those that
    nobody looks for. These are a table's files that no version names (their names were drawn by lot, and nobody has them), a log's
    names that are no version's (an entry that was being written), and a predecessor's workspace.
    """
    digest = hashlib.sha256()
    for file in sorted(_found(lake)):
        content = file.read_bytes()
        said = (str(file.relative_to(lake)), len(content))
        digest.update(repr(said).encode())
        digest.update(content)
    return digest.digest()


def _found(lake: Path) -> Iterator[Path]:
    logs = {log.parent: log for log in lake.glob("*/*/_delta_log")}
    workspace = Path(scratch_path(str(lake)))
    for file in lake.rglob("*"):
        if file.is_symlink() or not file.is_file() or file.is_relative_to(workspace):
            continue
        table = next((one for one in logs if file.is_relative_to(one)), None)
        if table is None or (file.parent == logs[table] and _is_of_a_version(file.name)):
            yield file
    for table in logs:
        yield from (file for file in _named(table) if file.exists())


def _is_of_a_version(name: str) -> bool:
    return delta_log.is_commit(name) or not name[:20].isdigit() or ".checkpoint" in name


def _named(table: Path) -> set[Path]:
    """Files of a table that some version names."""
    found = set[Path]()
    for version in range(delta_log.newest(table) + 1):
        try:
            actions = delta_log.read(table, version) or []
        except TornCommitError:
            continue
        for action in actions:
            if path := (action.get("add") or action.get("remove") or {}).get("path"):
                found.add(table / path)
    return found
