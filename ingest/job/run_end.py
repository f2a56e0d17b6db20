"""How a run ends by a failure: as an error of ours where the reason is Spark's death or a disk, wherever in the run it came."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ingest.job import executors
from ingest.job.spark_session import has_died
from ingest.job.stream_failure import spark_died, written
from ingest.lake.files.disk_failure import of_disk
from ingest.model.errors import IngestError


@contextmanager
def told(log: Path, lake: str) -> Iterator[None]:
    """Raise such a failure as what it is, with its traceback in ``log``; others, and errors of ours, as they are. ``lake``:
    its path.
    """
    try:
        yield
    except IngestError:
        raise
    except Exception as failure:
        # Spark first: what has died cannot be asked for the words of its failures.
        died = spark_died(log) if has_died(failure) else None
        error = died or executors.lost() or of_disk(failure, lake)
        if error is None:
            raise
        written(failure, log)
        raise error from None
