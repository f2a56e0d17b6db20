"""What Spark has committed to a table, read back: statistics that some reader would miss rows by are put right.

In one commit more, of the same files, as Delta's own ANALYZE TABLE … COMPUTE DELTA STATISTICS makes it. It carries the marker of the
commit that it follows, so a crash between the two is followed by it when the batch is made again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from ingest.lake.delta import file_statistics
from ingest.lake.delta.delta_log import Action
from ingest.lake.delta.table_handle import TableHandle
from ingest.model.names import Marker

_LOOK_BACK = 20
"""Versions among which a commit is looked for that was made before this job began."""


class Written(TableHandle, Protocol):
    """A table that Spark writes."""

    def schema_json(self) -> str:
        """Its columns, as its log has them."""

    def restate(self, of: int, files: Sequence[Action], marker: tuple[str, int]) -> None:
        """What these entries of files of its say of their values, in a commit of its own behind version ``of``, which is the newest, with
        this marker (app id and ``txnVersion``). Nothing where somebody else commits meanwhile.
        """


def since_marker(table: TableHandle, app_id: str, version: int) -> int | None:
    """The version whose commit this marker names, when it is one of the newest: the first that bears it, in whatever term. A successor's
    fence says it once more in its own.
    """
    start, place = max(0, table.version() - _LOOK_BACK), Marker.parse(version).place
    held = ((number, _markers(actions)) for number, actions in table.commits(start))
    return next((number for number, found in held if (app_id, place) in found), None)


def read_back(table: Written, app_id: str, version: int, start: int | None) -> None:
    """See ``TableHandle.read_back``."""
    if start is None:
        start = since_marker(table, app_id, version)
    if start is not None:
        put_right(table, start, app_id, version)


def put_right(table: Written, start: int, app_id: str, version: int) -> bool:
    """Look at what was committed from version ``start`` on; True when something was to be put right. Where somebody
    else commits meanwhile nothing is done.
    """
    commits = list(table.commits(start))
    known = file_statistics.columns(table.schema_json())
    files = [
        {**file_statistics.reread(add, known), "dataChange": False}
        for add in _live(actions for _, actions in commits)
        if file_statistics.misread(add, known)
    ]
    if not files:
        return False
    table.restate(commits[-1][0], files, (app_id, version))
    return True


def _live(commits: Iterable[Sequence[Action]]) -> list[Action]:
    """Entries of files that the last of these commits has left in the table."""
    found = dict[str, Action]()
    for actions in commits:
        for action in actions:
            if "remove" in action:
                found.pop(action["remove"]["path"], None)
        found |= {action["add"]["path"]: action["add"] for action in actions if "add" in action}
    return list(found.values())


def _markers(actions: Iterable[Action]) -> set[tuple[str, tuple[int, int]]]:
    found = (action["txn"] for action in actions if "txn" in action)
    return {(txn["appId"], Marker.parse(txn["version"]).place) for txn in found}
