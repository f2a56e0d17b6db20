"""Everything that can be known before anything is started."""

from __future__ import annotations

import os
import unicodedata
import uuid
from collections.abc import Iterable
from pathlib import Path

from ingest.config.pipeline_file import Pipeline
from ingest.kafka import broker
from ingest.lake.files import disk_failure, object_files
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.model import topics
from ingest.model.errors import Exit, IngestError
from ingest.model.location import in_object_store, local_folder
from ingest.model.names import table_folder
from ingest.source import mysql
from ingest.source.epoch_registry import EpochRegistry
from ingest.start import lake_format

_PROBE = 65_536
"""Bytes: a batch's row of the manifest takes some 20,000, and with less room than that none can be published."""


def refuse_unfit(pipeline: Pipeline) -> list[topics.TableId]:
    """Everything that can be known before anything is started. Returns the captured tables."""
    facts = mysql.server_facts(pipeline.source)
    captured = mysql.refuse_unfit(pipeline.source, facts)
    mysql.refuse_unreadable(pipeline.source, captured)
    topics.refuse_collisions(pipeline.name, captured, pipeline.source.topic_names)
    broker.refuse_away(pipeline)
    refuse_folders_of_logs(pipeline, captured)
    if not refuse_unwritable(pipeline.lake.path):
        refuse_shared_folders(captured)
    return captured


def refuse_folders_of_logs(pipeline: Pipeline, tables: Iterable[topics.TableId]) -> None:
    """Raise where a table would lie in the folder of another one's change log."""
    every = list(tables)
    logs = {pipeline.change_log_path(one): one for one in every if pipeline.logs(one)}
    for table in every:
        if (of := logs.get(pipeline.path(table))) is not None:
            raise IngestError(
                "E-CHANGE-LOG-FOLDER",
                f"The change log of {of} would lie in {pipeline.path(table)}, where the table {table} does.",
                means="Their rows would be mixed; nothing was started.",
                remedy="choose another ending of its name (`change_log_suffix` below `lake`).",
            )


def refuse_shared_folders(tables: Iterable[topics.TableId]) -> None:
    """Raise when two tables would lie in one folder of a disk that does not tell letters' case apart."""
    seen: dict[str, topics.TableId] = {}
    for table in tables:
        folder = table_folder(table.database, table.name)
        # Such disks mostly take composed and decomposed letters for one as well.
        alike = unicodedata.normalize("NFD", folder).casefold()
        other = seen.setdefault(unicodedata.normalize("NFD", alike), table)
        if other != table:
            raise IngestError(
                "E-LAKE-FOLDER-SHARED",
                f"The tables {other} and {table} would share the folder {folder}: the lake's disk does not "
                "tell upper and lower case letters apart.",
                means="Their rows would be mixed; nothing was started.",
                remedy="put the lake on a disk that does (`lake.path`), or exclude one of them with a "
                "`!database.table` pattern and take it in a pipeline of its own.",
            )


def refuse_unwritable(lake: str) -> bool:
    """Raise when the lake cannot be written, its disk is full, or its object store is unfit; HDFS tells at the first write.
    Returns whether names there that differ in letters' case alone are two.
    """
    folder = local_folder(lake)
    if folder is None:
        if in_object_store(lake):
            object_files.refuse_unfit(lake)
        return True
    probe = folder / f".ingest-probe-{uuid.uuid4().hex[:8]}"
    try:
        made = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        try:
            _write(probe)
            cased = not probe.with_name(probe.name.upper()).exists()
        finally:
            probe.unlink(missing_ok=True)
            if made:
                folder.rmdir()
    except OSError as failure:
        if (disk := disk_failure.found(failure)) and disk.full:
            raise disk_failure.as_error(disk, lake, Exit.REFUSED) from None
        raise IngestError(
            "E-LAKE-UNWRITABLE",
            f"The lake path {lake} cannot be written: {failure.strerror}.",
            means="Nothing was started.",
            remedy="correct `lake.path` in the pipeline file, or the folder's permissions.",
        ) from None
    return cased


def _write(probe: Path) -> None:
    """Bytes that cannot be packed, and down to the disk: a file without any can be made on a full one, and some file
    systems find out late.
    """
    with probe.open("wb") as file:
        file.write(os.urandom(_PROBE))
        file.flush()
        os.fsync(file.fileno())


def refuse_away_lake(pipeline: Pipeline) -> None:
    """Before an audit: every part answers, and there is a lake to compare."""
    mysql.refuse_unfit(pipeline.source, mysql.server_facts(pipeline.source))
    broker.refuse_away(pipeline)
    lake_format.refuse_other(pipeline.lake.path)
    if Ledger(pipeline.lake.path).last() is not None:
        return
    begun = bool(EpochRegistry(pipeline).known())
    raise IngestError(
        "E-AUDIT-NO-LAKE",
        f"A run has begun to fill the lake {pipeline.lake.path}, but has published no batch yet."
        if begun
        else f"There is no batch in the lake {pipeline.lake.path} yet.",
        means="MySQL has nothing to be compared with.",
        remedy="let the run come to its first batch; if it ended before, mend what it said at its end."
        if begun
        else "run the pipeline first: `ingest run FILE --once`.",
    )
