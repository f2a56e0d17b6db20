"""What an object store refuses of one table alone: a file that is archived, a key or a policy of one folder. Taken for the whole lake's trouble,
all tables, and each start, would wait for it.
"""

from __future__ import annotations

import uuid

from ingest.lake.files.object_files import LakeDeniedError
from ingest.lake.files.server_failure import is_refusal
from ingest.lake.files.storage import files_at
from ingest.model.errors import IngestError
from ingest.model.names import INTERNAL_FOLDER


def is_refused_alone(failure: BaseException, lake: str) -> bool:
    """Whether a failure at a table is such an answer, and the store lets us into the lake otherwise. ``lake``: its path."""
    return (isinstance(failure, LakeDeniedError) or is_refusal(failure)) and lets_in(lake)


def lets_in(lake: str) -> bool:
    """Whether what keeps a lake answers, and lets us look into it and write, just now."""
    files, probe = files_at(lake), f"{INTERNAL_FOLDER}/probe-{uuid.uuid4().hex[:8]}"
    try:
        files.names(INTERNAL_FOLDER)
        files.write(probe, "", lasting=False)
        files.delete(probe)
    except (IngestError, OSError):
        return False
    return True
