"""What a Delta table answers whoever commits to it, by Spark (``spark_table``) or by delta-rs (``delta_rs_table``).

``Committer`` and ``other_writers`` know no other table than this. Creating a table, changing its columns and writing
rows are each handle's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol


class TableHandle(Protocol):
    """One Delta table at a path."""

    @property
    def path(self) -> str:
        """As the lake names it; two handles of one table have the same."""

    def version(self) -> int:
        """The newest version number, looked up now."""

    def id(self) -> str:
        """Delta's id of the table, minted when it was made."""

    def committed(self, app_id: str) -> int | None:
        """The highest ``txnVersion`` that the table holds for an app id; None where it holds none."""

    def commits(self, start: int) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        """Versions from ``start`` on, each with its actions as Delta's log has them.

        A version whose file log retention has removed comes with no actions.
        """

    def metadata_at(self, version: int) -> Mapping[str, Any] | None:
        """What the table was at a version: ``schemaString`` and ``configuration``, as its log has them. None where that does not hold it any more."""

    def identified(self, app_id: str, version: int, note: str) -> AbstractContextManager[None]:
        """What is committed inside carries this identity, and ``note`` in its history."""

    def read_back(self, app_id: str, version: int, start: int | None = None) -> None:
        """Put right what the commit with this marker has left that some reader would miss rows by. ``start``: the version
        to look from; None: the commit's own, where it is one of the newest.
        """

    def make_lasting(self, start: int) -> None:
        """All that the versions from ``start`` on have written outlasts a power cut from here on."""
