"""Whether every column of a table has an exact place in the lake. Pure."""

from __future__ import annotations

from ingest.model import reasons
from ingest.model.errors import Exit, IngestError
from ingest.model.names import RESERVED_COLUMN, needs_mapping
from ingest.schema.catalog import UNKNOWN, SchemaVersion
from ingest.schema.evolution import Profile
from ingest.schema.mysql_types import UnknownType, column_type


def admitted(version: SchemaVersion, profile: Profile) -> SchemaVersion:
    """The version itself. Raises :class:`IngestError` when a column has no exact place, or no column is known."""
    if version.kind == UNKNOWN:
        name = version.moved_from
        why = reasons.UNKNOWN_COLUMNS.of(table=name) if name else reasons.GUESSED_COLUMNS.says
        raise IngestError(
            "E-COLUMNS-UNKNOWN",
            f"{version.table}: {why}.",
            means="The batch was not applied; its changes stay in Kafka.",
            remedy="`ingest resync` takes the table again, with its columns.",
            exit_code=Exit.FAILED,
        )
    for column in version.columns:
        if column.name.lower() == RESERVED_COLUMN:
            raise IngestError(
                "E-COLUMN-RESERVED",
                f"{version.table} {reasons.RESERVED.of(column=repr(column.name))}.",
                means="The batch was not applied; its changes stay in Kafka.",
                remedy="rename that column, or exclude the table with a `!` pattern.",
                exit_code=Exit.FAILED,
            )
        if profile == "compat" and needs_mapping(column.name):
            raise IngestError(
                "E-COLUMN-NAME",
                f"{version.table} {reasons.NEEDS_MAPPING.of(column=repr(column.name))}.",
                means="The batch was not applied; its changes stay in Kafka.",
                remedy="`profile: standard` below `lake` allows it; or rename that column, or exclude the "
                "table with a `!` pattern.",
                exit_code=Exit.FAILED,
            )
        try:
            column_type(column)
        except UnknownType as unknown:
            raise IngestError(
                "E-COLUMN-TYPE",
                f"{version.table}: {reasons.NO_PLACE.of(column=unknown)}.",
                means="The batch was not applied; its changes stay in Kafka.",
                remedy="exclude the table with a `!` pattern in `source.tables`, and report the type.",
                exit_code=Exit.FAILED,
            ) from None
    return version
