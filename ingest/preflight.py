"""Everything that can be known before anything is started."""

from __future__ import annotations

import uuid
from pathlib import Path

from ingest import kafka, mysql, topics
from ingest.config import Pipeline
from ingest.errors import IngestError
from ingest.ledger import Ledger


def refuse_unfit(pipeline: Pipeline) -> list[topics.TableId]:
    """Everything that can be known before anything is started. Returns the captured tables."""
    facts = mysql.server_facts(pipeline.source)
    captured = mysql.refuse_unfit(pipeline.source, facts)
    mysql.refuse_unreadable(pipeline.source, captured)
    topics.refuse_collisions(pipeline.name, captured, pipeline.source.topic_names)
    kafka.refuse_away(pipeline)
    refuse_unwritable(pipeline.lake.path)
    return captured


def refuse_unwritable(lake: str) -> None:
    """Raise when a local lake folder cannot be written. Object stores tell at the first write."""
    if "://" in lake and not lake.startswith("file:"):
        return
    folder = Path(lake.removeprefix("file://").removeprefix("file:"))
    probe = folder / f".ingest-probe-{uuid.uuid4().hex[:8]}"
    try:
        made = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_text("")
        probe.unlink()
        if made:
            folder.rmdir()
    except OSError as failure:
        raise IngestError(
            "E-LAKE-UNWRITABLE",
            f"The lake path {lake} cannot be written: {failure.strerror}.",
            means="Nothing was started.",
            remedy="correct `lake.path` in the pipeline file, or the folder's permissions.",
        ) from None


def refuse_away_lake(pipeline: Pipeline) -> None:
    """Before an audit: every part answers, and there is a lake to compare."""
    mysql.refuse_unfit(pipeline.source, mysql.server_facts(pipeline.source))
    kafka.refuse_away(pipeline)
    if Ledger(pipeline.lake.path).last() is None:
        raise IngestError(
            "E-AUDIT-NO-LAKE",
            f"There is no batch in the lake {pipeline.lake.path} yet.",
            remedy="run the pipeline first: `ingest run FILE --once`.",
        )
