"""How what goes on with Spark ends by a failure: as an error of ours where the reason is Spark's death or a disk, wherever it came."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ingest.job import executors
from ingest.job.spark_session import has_died
from ingest.job.stream_failure import spark_died, written
from ingest.lake.files.disk_failure import of_disk
from ingest.model.errors import IngestError

OF_A_RUN = "The batch in hand was not published; the next run finishes it."
OF_AN_AUDIT = "The lake was not compared, and nothing was changed in it."


@contextmanager
def told(log: Path, lake: str, means: str = OF_A_RUN) -> Iterator[None]:
    """Raise such a failure as what it is, with its traceback in ``log``; others, and errors of ours, as they are. ``lake``:
    its path; ``means``: what Spark's death means for the data.
    """
    try:
        yield
    except IngestError:
        raise
    except Exception as failure:
        # Spark first: what has died cannot be asked for the words of its failures.
        died = spark_died(log) if has_died(failure) else None
        if died is not None:
            died.means = means
        error = died or executors.lost() or of_disk(failure, lake)
        if error is None:
            raise
        written(failure, log)
        raise error from None
