"""A table that a person names on the command line."""

from __future__ import annotations

from ingest.config.pipeline_file import Pipeline
from ingest.model.errors import IngestError
from ingest.model.topics import TableId
from ingest.source import mysql


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
    return wanted
