"""A table that a person names on the command line."""

from __future__ import annotations

from ingest.config.pipeline_file import Pipeline
from ingest.model.errors import IngestError
from ingest.model.topics import TableId
from ingest.source import mysql
from ingest.source.left_out import LeftOut


def known_table(pipeline: Pipeline, name: str) -> TableId:
    """The captured table of that name. Raises :class:`IngestError`."""
    try:
        wanted = TableId.parse(name)
    except ValueError as failure:
        raise IngestError(
            "E-RESYNC-TABLE", f"{failure}.", remedy="name it as `database.table`."
        ) from None
    source = pipeline.source
    if wanted not in mysql.refuse_unfit(source, mysql.server_facts(source)):
        raise IngestError(
            "E-RESYNC-TABLE",
            f"{wanted} is not a table that this pipeline takes and its user may read.",
            remedy="check the name, `source.tables`, and that the user may SELECT from it.",
        )
    if why := LeftOut(pipeline).tables().get(str(wanted)):
        raise IngestError(
            "E-RESYNC-TABLE",
            f"The connector leaves {wanted} out until the next run: {why}.",
            means="It would read no row of it, and the request would never end; nothing was asked for.",
            remedy="mend that and run again: each run takes the table in again, and takes it whole.",
        )
    return wanted
