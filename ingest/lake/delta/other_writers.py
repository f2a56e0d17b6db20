"""Commits to our tables that are not ours: found in Delta's own log, and told apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ingest.lake.delta.restored_version import restored_to
from ingest.lake.delta.table_handle import TableHandle
from ingest.model import restart_reasons
from ingest.model.errors import Exit, IngestError
from ingest.model.names import APPLICATION
from ingest.model.start_facts import Foreign, Note

HARMLESS = ("OPTIMIZE", "VACUUM START", "VACUUM END", "REORG", "UPGRADE PROTOCOL")
"""Operations that move or remove files and change no row."""


class ForeignCommitError(IngestError):
    """Somebody else has changed a table since our last commit to it."""

    def __init__(self, path: str, foreign: Foreign) -> None:
        super().__init__(
            "E-TABLE-FOREIGN",
            f"{restart_reasons.CONFLICT.of(path=path, operation=foreign.operation, version=foreign.version)}.",
            means="The batch in hand was not published.",
            remedy="run again: a restored table is healed, another writer's change is refused with "
            "what to do.",
            exit_code=Exit.FAILED,
        )


@dataclass(frozen=True)
class Since:
    """What happened to a table after a version: our newest note, what was not ours, and which markers our
    commits left (app id to ``txnVersion``); None where the log does not hold all of them any more. ``version``: the
    newest that was looked at.
    """

    note: Note | None
    foreign: Foreign | None
    markers: Mapping[str, int] | None
    version: int


def since(table: TableHandle, version: int, own: str = "") -> Since:
    """Look through the versions after ``version``. ``own``: an app id that is ours, too, whatever its name.

    A RESTORE to a version that holds all of ours brings back what was there then, be it somebody else's: one that undoes a RESTORE
    is no change, and one to a version that was restored itself undoes as much as that.
    """
    note, foreign, ours, markers, whole = None, None, version, dict[str, int](), True
    newest, by_then = version, dict[int, Foreign | None]()
    for number, actions in table.commits(version + 1):
        newest, by_then[number - 1] = number, foreign
        whole = whole and bool(actions)
        for txn in (action["txn"] for action in actions if "txn" in action):
            markers[txn["appId"]] = max(txn["version"], markers.get(txn["appId"], 0))
        info: dict[str, Any] = next((a["commitInfo"] for a in actions if "commitInfo" in a), {})
        if _is_ours(actions, own):
            ours = number if changes_data(actions) else ours
            try:
                note = Note.from_json(info.get("userMetadata") or "")
            except (ValueError, KeyError, TypeError):
                continue  # a fence, which holds nothing
            ours = number  # other columns are no data, and are undone all the same
        elif info.get("operation") == "RESTORE":
            to = restored_to(table, number, actions)
            if to is not None and to >= ours and to in by_then:
                foreign = by_then[to]
            else:
                foreign = Foreign(number, "RESTORE", to)
        elif changes_data(actions) and info.get("operation") not in HARMLESS:
            foreign = Foreign(number, str(info.get("operation", "unknown")))
    return Since(note, foreign, markers if whole else None, newest)


def _is_ours(actions: Iterable[Mapping[str, Any]], own: str) -> bool:
    apps = (action["txn"]["appId"] for action in actions if "txn" in action)
    return any(app == own or app.startswith(f"{APPLICATION}/") for app in apps)


def changes_data(actions: Iterable[Mapping[str, Any]]) -> bool:
    """Whether rows may be others by these actions."""
    return any(
        action[kind].get("dataChange", True)
        for action in actions
        for kind in ("add", "remove")
        if kind in action
    )
