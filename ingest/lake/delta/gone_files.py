"""Data files that a table's log names and that nobody has: said as such, as no engine can read them either."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import unquote

from ingest.lake.files.table_files import TableFiles
from ingest.model.errors import Exit, IngestError


class FileGoneError(IngestError):
    """A table's own trouble, and certain at once."""

    def __init__(self, table: str, gone: str) -> None:
        super().__init__(
            "E-FILE-GONE",
            f"{gone}, which the newest version of {table} names, is gone.",
            means="Nothing of the batch was committed to the table.",
            remedy=f"bring the file back from a copy; or move {table} away: the next run fills a new one from Kafka, or takes "
            "the table again where Kafka no longer has all of it.",
            exit_code=Exit.FAILED,
        )


def refuse_gone(table: TableFiles, files: Iterable[str]) -> None:
    """Raises :class:`FileGoneError`. ``files``: below the table's folder, as its log names them. A look at each of them:
    for when something has failed.
    """
    for name in files:
        if not table.has(name):
            raise FileGoneError(table.place, unquote(name))
