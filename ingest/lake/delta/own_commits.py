"""What a version of a table holds, by the notes of our commits in its own log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from ingest.lake.delta.other_writers import HARMLESS, changes_data
from ingest.lake.delta.restored_version import restored_to
from ingest.lake.delta.table_handle import TableHandle
from ingest.model.names import Marker, app_id_parts
from ingest.model.start_facts import Foreign, Held, LogHeld, Note, carried_by

Actions = Sequence[Mapping[str, Any]]


def held(table: TableHandle, version: int) -> Held | Foreign:
    """What a version holds: that of the newest batch of ours at or below it, or below the version that it was restored
    to. ``Foreign``: the commit of somebody else that made it so.
    """
    top = at = version
    while at >= 0:
        actions = commit(table, at)
        if not actions:
            return Held(top, min(at + 1, top))  # the log does not hold it any more
        info = _info(actions)
        if (said := _note(info)) is not None:
            whole = takewhile(
                lambda later: batch_of(commit(table, later)) == said.batch_id,
                range(at + 1, top + 1),
            )
            return Held(max([at, *whole]), at, said.batch_id)
        if is_restore(actions):
            to = restored_to(table, at, actions)
            if to is None or to >= at:
                return Held(top, at)
            top = at = to
            continue
        # Commits of ours without a note are fences, and what `upgrade` has put right: no row is another one by them.
        others = changes_data(actions) and info.get("operation") not in HARMLESS
        if others and not markers(actions):
            return Foreign(at, str(info.get("operation", "unknown")))
        at -= 1
    return Held(top, 0, 0)


def commit(table: TableHandle, version: int) -> Actions:
    """One commit's; none where the log does not hold it any more."""
    return next((actions for _, actions in table.commits(version)), [])


def batch_of(actions: Actions) -> int | None:
    """The batch of ours that a commit is of, or whose statistics it puts right (``read_back``); None for another one."""
    said = _note(_info(actions))
    if said is not None:
        return said.batch_id
    if _changes_files(actions) and not changes_data(actions):
        return max((marker.batch for marker in markers(actions)), default=0) or None
    return None


def carried_in(table: TableHandle, batch: int) -> tuple[int, ...]:
    """The steps that the newest commit of a batch says were carried (``start_facts.carrying``)."""
    for at in range(table.version(), -1, -1):
        info = _info(commit(table, at))
        said = _note(info)
        if said is not None:
            return carried_by(str(info["userMetadata"])) if said.batch_id == batch else ()
    return ()


def log_held(table: TableHandle) -> LogHeld | None:
    """What a change log holds now, by its newest commit that says so; that of the version that it was restored to. None where none does."""
    found = log_held_at(table)
    return found[1] if found else None


def log_held_at(table: TableHandle) -> tuple[int, LogHeld] | None:
    """The same, and which version's commit says so."""
    at = table.version()
    while at >= 0:
        actions = commit(table, at)
        if is_restore(actions):
            to = restored_to(table, at, actions)
            at = to if to is not None and to < at else at - 1
            continue
        found = LogHeld.read(str(_info(actions).get("userMetadata") or ""))
        if found is not None:
            return at, found
        at -= 1
    return None


def markers(actions: Actions) -> list[Marker]:
    """Those of ours."""
    ours = [a["txn"] for a in actions if "txn" in a and app_id_parts(a["txn"]["appId"])]
    return [Marker.parse(int(txn["version"])) for txn in ours]


def is_restore(actions: Actions) -> bool:
    """Whether a commit brings back an older version."""
    return _info(actions).get("operation") == "RESTORE"


def newest_after(table: TableHandle, known: int) -> int:
    """The newest version after a known one that is of a batch of ours; that one where none is."""
    for at in range(table.version(), known, -1):
        if _note(_info(commit(table, at))) is not None:
            return at
    return known


def newest_known(table: TableHandle, published: int) -> int:
    """The newest version that is of a published batch; -1 where the log holds none."""
    for at in range(table.version(), -1, -1):
        actions = commit(table, at)
        if not actions:
            return at
        said = _note(_info(actions))
        if said is not None and said.batch_id <= published:
            return at
    return -1


def cleaned(table: TableHandle, version: int) -> bool:
    """Whether a commit after a version removed what a completed snapshot did not contain."""
    said = (_note(_info(actions)) for _, actions in table.commits(version + 1))
    return any(one is not None and one.cleanup is not None for one in said)


def _info(actions: Actions) -> Mapping[str, Any]:
    return next((action["commitInfo"] for action in actions if "commitInfo" in action), {})


def _note(info: Mapping[str, Any]) -> Note | None:
    try:
        return Note.from_json(info.get("userMetadata") or "")
    except (ValueError, KeyError, TypeError):
        return None


def _changes_files(actions: Actions) -> bool:
    return any("add" in action or "remove" in action for action in actions)
