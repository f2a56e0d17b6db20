"""What a pipeline's user may do on the whole server, read from what `SHOW GRANTS` answers, and what it lacks. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ingest.model.errors import IngestError

ALL = "ALL PRIVILEGES"
NEEDED = ("RELOAD", "REPLICATION SLAVE", "REPLICATION CLIENT")
"""To read the binlog. They are the whole server's: of one database none of them can be granted."""
_OF_ALL = re.compile(r"GRANT (.+?) ON \*\.\* TO ")


def on_the_server(lines: Iterable[str]) -> frozenset[str]:
    """Privileges granted ``ON *.*``; with those of roles that are active, which the server has put among them. What is granted on one
    database is none of them, and nor is a word in the name of a user, a role or a database.
    """
    lists = (found.group(1) for line in lines if (found := _OF_ALL.match(line)))
    return frozenset(one.strip().upper() for text in lists for one in text.split(","))


def refuse_lacking(user: str, server: str, grants: frozenset[str]) -> None:
    """Raise for the first that is needed and not there."""
    if ALL in grants:
        return
    for grant in NEEDED:
        if grant not in grants:
            raise IngestError(
                "E-MYSQL-GRANT",
                f"The user {user!r} of {server} lacks the grant {grant}.",
                means="The binlog cannot be read; nothing was started.",
                remedy=f"GRANT {grant} ON *.* TO that user; {_LISTED}",
            )


DENIED = 1227
"""MySQL's number of a statement that needs a privilege of the whole server."""
_LISTED = "sql/source/grants.sql lists what is needed and why."


def denied(said: object) -> IngestError:
    """Of a server that has said so itself: a grant may be taken back at any time."""
    return IngestError(
        "E-MYSQL-GRANT",
        f"MySQL does not say where its binlog ends: {str(said).removesuffix('.')}.",
        means="How far the pipeline has to go is not known.",
        remedy=f"GRANT REPLICATION CLIENT ON *.* TO the user of `source.mysql`; {_LISTED}",
    )
