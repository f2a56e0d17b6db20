"""What a flow is told of a sink that it cannot write to."""

from __future__ import annotations

from pyspark.sql.types import StructType

from ingest.config.connection_settings import Server
from ingest.config.flow_sinks import FlowSink
from ingest.flows import mysql_table
from ingest.model.errors import IngestError


def repeated(flow: str, sink: FlowSink) -> IngestError:
    """Several rows of one key, and nothing says which of them counts."""
    return IngestError(
        "E-FLOW-KEYS",
        f"The flow {flow!r} brings several rows of the same `keys` of {sink.place} in one batch.",
        means="Which of them counts is not known. Nothing of the batch was written there.",
        remedy=f"name all columns that tell its rows apart; now they are {', '.join(sink.keys)}. Or say by `version` which row is the newest.",
    )


def unfit(
    flow: str, table: str, server: Server, why: str, columns: StructType, sink: FlowSink
) -> IngestError:
    """A table of MySQL that cannot take the result."""
    return IngestError(
        "E-FLOW-SINK",
        f"The flow {flow!r} cannot write to the table {table} of {server.shown}, database {server.database}: {why}.",
        means="It was not started, and nothing was written there.",
        remedy=f"mend the table, or the flow; one that fits is made by {mysql_table.suggested(table, columns, sink.keys)}",
    )


def no_key(flow: str, sink: FlowSink, lacking: list[str], there: list[str]) -> IngestError:
    """A key that is no column of the result."""
    return IngestError(
        "E-FLOW-KEYS",
        f"The flow {flow!r} brings no column {', '.join(lacking)}, which is among the `keys` of {sink.place}.",
        means="It was not started, and nothing was written there.",
        remedy=f"name columns of the result as it writes them: {', '.join(there)}.",
    )


def nested(flow: str, path: str, why: str) -> IngestError:
    """A Delta table inside another's folder, or around something else."""
    return IngestError(
        "E-FLOW-SINK",
        f"{path}, where the flow {flow!r} writes, {why}.",
        means="Nothing was written there: whoever removes old files of the one could take the other's.",
        remedy="name another folder below `sinks`, such as `marts/name`.",
    )


def taken(flow: str, path: str) -> IngestError:
    """A Delta table that is not the flow's."""
    return IngestError(
        "E-FLOW-SINK",
        f"{path}, where the flow {flow!r} writes, is a table that is not this flow's.",
        means="Nothing was written there.",
        remedy="name another folder below `sinks`, or move that table away.",
    )
