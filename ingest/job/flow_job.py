"""`ingest flow run`: one flow in a process of its own, and what else is done to one by a command."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from ingest.config.flow_settings import Flow
from ingest.config.pipeline_file import Pipeline
from ingest.flows.flow_folder import FlowFolder
from ingest.flows.flow_query import FlowQuery
from ingest.flows.flow_record import FlowStatus
from ingest.flows.flow_runs import FlowRun
from ingest.job import spark_session, stop_signal
from ingest.job.lent_keys import LentKeys
from ingest.job.run_end import told
from ingest.lake import ownership
from ingest.lake.delta.commit import Committer
from ingest.lake.files import durability, hadoop_files
from ingest.lake.files.lease import Lease
from ingest.lake.files.storage import files_at
from ingest.model.errors import IngestError
from ingest.model.location import within_reach
from ingest.start.preflight import refuse_unwritable

Say = Callable[[str], None]


def flow_of(pipeline: Pipeline, name: str) -> Flow:
    """As the pipeline file has it. Raises :class:`IngestError` where it has no such flow."""
    if name not in pipeline.flows:
        known = ", ".join(pipeline.flows) or "none"
        raise IngestError(
            "E-FLOW-NAME",
            f"There is no flow {name!r} in the pipeline file; there is: {known}.",
            remedy="name one below `flows`.",
        )
    return pipeline.flows[name]


@contextmanager
def session(pipeline: Pipeline, log: Path) -> Iterator[SparkSession]:
    """Spark, for as long as this lasts. Raises :class:`IngestError` for a lake that is another pipeline's."""
    reached = within_reach(pipeline.lake.path)
    if reached:
        ownership.refuse_other(pipeline)
    spark = spark_session.for_pipeline(pipeline, log)
    try:
        if not reached:
            ownership.refuse_other(pipeline)
        yield spark
    finally:
        spark_session.end(spark)


def run(pipeline: Pipeline, name: str, log: Path, say: Say, *, once: bool) -> FlowStatus:
    """Until it is stopped by a signal, or, ``once``, its inputs are read. Raises :class:`IngestError`."""
    flow_of(pipeline, name)
    durability.switch(on=pipeline.lake.sync)
    stop, keys = threading.Event(), LentKeys(pipeline.lake)
    stop_signal.stops(stop)

    def gives_up(failure: BaseException) -> bool:
        # Of a query Spark says what its store has answered.
        of_lake = hadoop_files.failed(pipeline.lake.path, failure)
        return keys.are_old(of_lake or failure) or spark_session.has_died(failure)

    say("starting Spark …")
    with told(log, pipeline.lake.path), session(pipeline, log) as spark:
        found = FlowRun(spark, pipeline, name, say, stop, gives_up=gives_up)
        if once:
            found.once()
        else:
            say(f"flow {name} runs every {pipeline.flows[name].trigger}; Ctrl-C stops it")
            found.until_stopped()
        return found.status


@contextmanager
def held(pipeline: Pipeline, name: str, log: Path, say: Say) -> Iterator[FlowQuery]:
    """A flow that nobody runs meanwhile. Raises :class:`IngestError` where somebody does."""
    flow, folder = flow_of(pipeline, name), FlowFolder(pipeline, name)
    refuse_unwritable(pipeline.lake.path)
    with session(pipeline, log) as spark:
        lease = Lease(files_at(folder.lease), say)
        term = lease.acquire(standby=False, stop=threading.Event())
        assert term is not None
        try:
            query = FlowQuery(spark, folder, flow, Committer(term.number, lease.refuse_lost), say)
            if term.fence:
                query.fence()
                lease.fenced()
            yield query
        finally:
            lease.release()
