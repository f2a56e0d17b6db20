"""Every table again, after the log itself was lost: reset, purged, or another server without GTIDs."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ingest.config.pipeline_file import Pipeline
from ingest.lake import ownership
from ingest.lake.files import object_files
from ingest.lake.files.lease import Lease
from ingest.lake.files.storage import files_at
from ingest.lake.manifest.manifest_reader import newest_term
from ingest.model.location import in_object_store
from ingest.model.names import lease_path
from ingest.source import mysql
from ingest.source.connector import Connector
from ingest.source.epoch_registry import EpochRegistry


def resnapshot(pipeline: Pipeline, say: Callable[[str], None]) -> None:
    """Stop the connector, begin a new epoch of the log, and let it start with a snapshot.

    Old rows stay readable until a table's new ones are applied; rows that the source no longer has
    go when its snapshot is complete. Raises :class:`IngestError` while a job holds the lease: it
    would read the new log by the old epoch; and for a lake that is another pipeline's.
    """
    ownership.refuse_other(pipeline)
    if in_object_store(pipeline.lake.path):
        object_files.refuse_unfit(pipeline.lake.path)
    lake = pipeline.lake.path
    lease = Lease(files_at(lease_path(lake)), say, written=lambda: newest_term(lake))
    lease.acquire(standby=False, stop=threading.Event())
    try:
        ownership.claim(pipeline)
        connector = Connector(pipeline)
        if connector.status() is not None:
            connector.stop()
            say("the connector stands still")
        server = mysql.server_uuid(pipeline.source)
        registry = EpochRegistry(pipeline)
        if registry.known():
            epoch = registry.begin(server, "every table was taken again", continues=False)
            say(f"epoch {epoch.number} of the log begins")
        if connector.status() is not None:
            connector.forget_offset()
        registry.follow(connector, say)
        connector.resume()
        say("the connector begins with a snapshot of every table")
    finally:
        lease.release()
