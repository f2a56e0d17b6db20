"""Putting a new checkpoint in the place of one that is not gone on with, so that a start can tell what a killed job has left of either.

A folder of Spark's files goes file by file, in no order of ours. Were its identity among the first, the rest would look like another job's; were it the
last, what is left could look like a checkpoint of fewer batches. So a file of its own says first that none of it counts any more.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable

from ingest.lake.files.storage import Files
from ingest.model.names import IDENTITY_FILE, REPLACED_FILE


def begin(files: Files, pipeline: str, shape: str, refuse_lost: Callable[[], None]) -> str:
    """Leaves one that has begun nothing, and returns its id. Whenever this ends in the middle, a start finds the checkpoint gone.
    ``refuse_lost`` raises when a successor has taken the lease: what lies there is then its checkpoint.
    """
    refuse_lost()
    files.write(REPLACED_FILE, f"{pipeline}\n")
    for name in files.names(""):
        if name != REPLACED_FILE:
            refuse_lost()
            files.delete(name)
    refuse_lost()
    minted = uuid.uuid4().hex[:16]
    files.write(IDENTITY_FILE, f"{pipeline}\n{minted}\n{shape}\n")
    files.delete(REPLACED_FILE)
    return minted
