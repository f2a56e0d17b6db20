"""Which version a RESTORE went back to.

One by version says so. One by time says the time as the clock of the Java process shows it that made it, and no zone: elsewhere that is another moment,
and another version. So the version is found by what the table was made to be: it has the same files then, and the same columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any
from urllib.parse import unquote

from ingest.lake.delta.delta_log import Action
from ingest.lake.delta.same_columns import are_same
from ingest.lake.delta.table_handle import TableHandle
from ingest.model.names import APPLICATION

Actions = Sequence[Mapping[str, Any]]

_BLOCK = 100
"""Commits that are read in one go, backwards."""


def restored_to(table: TableHandle, at: int, actions: Actions) -> int | None:
    """The version that a RESTORE, the commit of version ``at``, went back to; None where the log does not say, or not any more. Of
    versions in which the table was the same the newest one.
    """
    info: Mapping[str, Any] = next(
        (action["commitInfo"] for action in actions if "commitInfo" in action), {}
    )
    said = str((info.get("operationParameters") or {}).get("version"))
    return int(said) if said.isdigit() else _found(table, at, actions)


def _found(table: TableHandle, at: int, actions: Actions) -> int | None:
    """By the log alone. What a version's files are is not asked for: it is followed which of them differ from those that the RESTORE has made."""
    made, others = table.metadata_at(at), _changed(actions)
    for version, before in _backwards(table, at - 1):
        if not others and made is not None and _is_alike(table.metadata_at(version), made):
            return version
        if not before:
            return None
        others ^= _changed(before)
    return None


def _backwards(table: TableHandle, newest: int) -> Iterator[tuple[int, Actions]]:
    for end in range(newest + 1, 0, -_BLOCK):
        start = max(0, end - _BLOCK)
        yield from reversed([*islice(table.commits(start), end - start)])


def _changed(actions: Actions) -> set[tuple[str, str]]:
    """Files that a commit has put in or taken out. Not those of which it only says something else: a commit that adds files, takes none out and changes
    no row names files that are there, as statistics that are put right do.
    """
    added, removed = ([one[kind] for one in actions if kind in one] for kind in ("add", "remove"))
    if not removed and not any(add.get("dataChange", True) for add in added):
        return set()
    return {*map(_named, added)} ^ {*map(_named, removed)}


def _named(file: Action) -> tuple[str, str]:
    """A file with the rows of it that are deleted. A path is encoded as its writer likes."""
    vector = file.get("deletionVector") or {}
    rows = [str(vector.get(name)) for name in ("storageType", "pathOrInlineDv", "offset")]
    return unquote(file["path"]), " ".join(rows)


def _is_alike(then: Mapping[str, Any] | None, made: Mapping[str, Any]) -> bool:
    """Whether the columns are the same ones, and what we have noted of them."""
    if then is None or _noted(then) != _noted(made):
        return False
    return are_same(then["schemaString"], made["schemaString"])


def _noted(metadata: Mapping[str, Any]) -> dict[str, str]:
    properties: Mapping[str, str] = metadata.get("configuration") or {}
    return {name: text for name, text in properties.items() if name.startswith(f"{APPLICATION}.")}
