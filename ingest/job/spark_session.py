"""The Spark session: verified local jars, UTC, quiet on the terminal, small for one machine."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pyspark
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql import SparkSession

from ingest.config.pipeline_file import Pipeline
from ingest.config.resources import resource
from ingest.job import cluster, executors, private_settings, shipped_packages
from ingest.kafka import client_settings
from ingest.lake.files import object_store
from ingest.local import artefacts, class_archive
from ingest.local.java import spark_java_home
from ingest.model.location import is_local, is_s3

DEFAULTS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.log.structuredLogging.enabled": "false",
    # Otherwise each Column that Python makes asks the JVM five more questions, to be able to name its line in
    # an error: 0.4 s of a batch of ten small tables.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # One state of a small table in 1 task instead of 50.
    "spark.databricks.delta.snapshotPartitions": "1",
    # The batch is persisted before any MERGE reads it, so MERGE need not copy its source again.
    "spark.databricks.delta.merge.materializeSource": "none",
    "spark.sql.shuffle.partitions": "2",
    # Re-planning costs more than it saves on batches of this size.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stopTimeout": "60s",
    "spark.databricks.delta.stats.skipping": "true",
    # The manifest goes on naming a quiet table's version when upkeep has committed behind it, and Delta would not read or restore
    # it any more a week after it was made. Whether its files are there VACUUM sees to, which leaves them.
    "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration": "false",
    # Of a small table whose neighbour's tasks have all cores: its own wait for these, however long that is.
    "spark.sql.broadcastTimeout": "36000",
    # A table may have deletion vectors of ours, in its log. Spark's would be files of their own, which delta-rs's
    # VACUUM does not know and a file that is put in order does not bring along; it writes files anew instead.
    "spark.databricks.delta.delete.deletionVectors.persistent": "false",
    "spark.databricks.delta.merge.deletionVectors.persistent": "false",
    "spark.databricks.delta.update.deletionVectors.persistent": "false",
    "spark.sql.sources.default": "delta",
    # Text in a mirror is the source's own, so nothing is trimmed or padded on the way.
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
}

ON_ONE_MACHINE = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
"""Nobody else calls the driver there; on a cluster executors do (``cluster.settings``)."""

REDACTION = "spark.sql.redaction.options.regex"

SPARK_HIDES = {"spark.redaction.regex": "(?i)secret|password|token|access[.]?key"}
"""What Spark shows nowhere where nobody says otherwise; who says more is not to show that."""

LOG_STORE = "spark.delta.logStore.file.impl"
"""What Spark commits to tables on local disks by."""

EXCLUSIVE = {
    LOG_STORE: "ingest.LinkingLogStore",
    "spark.delta.logStore.s3a.impl": "ingest.ConditionalLogStore",
    "spark.delta.logStore.s3.impl": "ingest.ConditionalLogStore",
}
"""Delta's own look whether a version is there and write it then, in place of a commit that came between. Ours (``connect/log-store``)
make a link, which the kernel makes only where there is no such name, and put on a condition, which the server looks at.
"""

LOCAL_CHECKPOINT = {
    # On a local disk Hadoop's FileContext, the default, asks `readlink` and `chmod`, each a process, 20 times a
    # batch, which is a third of a second between two; its FileSystem asks 4 times. Both look whether the file
    # is there and rename another to it: atomic, and as safe with one job at a time, which the lease sees to.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
"""For a checkpoint in a local folder."""

SHORT = {"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1"}
"""Java's first compiler alone, for a job that is to end and leaves little for Spark to compute. The second one takes two
fifths of a start's CPU and pays where Spark computes for minutes: a job that merged 700,000 changes by Spark took 121 s
with it and 199 without; one that fetched 5,000 in the driver 18 and 13 (`bench.starts` has the start alone).
"""


FLOWS = {
    "spark.scheduler.mode": "FAIR",
    "spark.sql.streaming.stateStore.maintenanceInterval": "10s",
}
"""Where flows run beside the mirrors: tasks of each flow, and those of the mirrors, in turns, however many one has; and what a batch of
a second leaves in a state store is cleared away before it comes to hundreds of files.
"""

OUTLASTS_A_FULL_HEAP = {"spark.executor.killOnFatalError.depth": "0"}
"""Where a flow shares Java's heap with the mirrors, what does not fit fails the task that asked for it. Else Spark ends the whole process, as
on a cluster it is right to end an executor: 52 is its exit code for that (SPARK-39146).
"""

_LATER = " ".join(
    f"-XX:Tier4{name}={10 * usual}"
    for name, usual in (
        ("InvocationThreshold", 5_000),
        ("MinInvocationThreshold", 600),
        ("CompileThreshold", 15_000),
        ("BackEdgeThreshold", 40_000),
    )
)
"""Java's second compiler takes what has run ten times as often as it usually asks for. A driver that plans MERGEs runs a hundred
thousand methods a few hundred times each; compiling them takes more than they save. A backlog merged by Spark took 45 CPU seconds, not 53, and
100 changes to each of ten tables, warm, 12, not 14; a thousand changes into a million rows the same (`bench.merges`).
"""

_JOINED = {
    "spark.archives": ",",
    "spark.executorEnv.PYTHONPATH": ":",
    REDACTION: "|",
    **dict.fromkeys(SPARK_HIDES, "|"),
}
"""Settings in which a user's own stand behind ours, and what stands between them."""

_TRIES = 4
"""Of a task: what ``spark.task.maxFailures`` is on a cluster, and does not change on one machine."""


def create(
    name: str,
    *,
    master: str,
    driver_memory: str,
    conf: dict[str, str],
    log: Path,
    more: Sequence[str] = (),
    of_user: Sequence[str] = (),
    private: Mapping[str, str] | None = None,
    python: str = sys.executable,
) -> SparkSession:
    """Start Spark. Everything that the JVM prints goes to ``log``, nothing to the terminal. ``more``: groups of artefacts that it needs beside its
    own; ``of_user``: further jar files; ``private``: settings that stand in no command line; ``python``: of the executors.
    """
    jars = [*artefacts.jars("spark"), resource("connect", "log-store.jar")]
    jars += [path for name in more for path in artefacts.jars(name)]
    names = [*map(str, jars), *of_user]
    local = master.startswith("local")
    log.parent.mkdir(parents=True, exist_ok=True)
    os.environ["JAVA_HOME"] = str(spark_java_home())
    address = "127.0.0.1" if local else conf.get("spark.driver.bindAddress")
    if address:
        os.environ["SPARK_LOCAL_IP"] = address
    os.environ["PYSPARK_PYTHON"] = python
    # A Java that writes the command line of the one that counts: 0.10 of its 0.29 CPU seconds less.
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    # Table names keep their letters in folder names; under the C locale Java would mangle them.
    os.environ["LC_ALL"] = "C.UTF-8"
    options = {
        **DEFAULTS,
        **(ON_ONE_MACHINE if local else {}),
        **log_store(conf),
        "spark.driver.memory": driver_memory,
        # On the driver's own class path they need no copy for local executors.
        **(
            {"spark.driver.extraClassPath": ":".join(names)}
            if local
            else {"spark.jars": ",".join(names)}
        ),
        "spark.driver.extraJavaOptions": (
            f"-Dlog4j2.configurationFile={resource('connect', 'spark-log4j2.properties')} "
            f"-Dingest.log.file={log} -Duser.timezone=UTC -Xss4m {collector(master)} -XX:ReservedCodeCacheSize=256m {_LATER} "
            + " ".join(class_archive.java_options("spark", [Path(pyspark.__file__), *jars]))
        ),
        "spark.executor.extraJavaOptions": "-Duser.timezone=UTC -Xss4m",
        **conf,
    }
    private = private or {}
    builder = SparkSession.builder.appName(name).master(trying_again(master))
    for key, value in options.items():
        if key not in private:  # which would give way to it
            builder = builder.config(key, value)
    with _stderr_into(log), _ctrl_c_kept(), private_settings.told(private):
        return builder.getOrCreate()


_LOCAL = re.compile(r"local(?:\[(\d+|\*)\])?")


def collector(master: str) -> str:
    """Which of Java's garbage collectors: on one or two cores the one that keeps the heap no larger than what lives in it. A backlog with rows of 8 MB
    took 1,347 MiB of memory with it and 1,715 with the other, which lets the heap grow to its limit; a tenth more time, and MERGEs no more (`bench.volume`,
    `bench.merges`). On more cores one thread that collects for all of them would be waited for.
    """
    local = _LOCAL.fullmatch(master)
    if local is None:
        return "-XX:+UseParallelGC"
    cores = (os.cpu_count() or 1) if local[1] == "*" else int(local[1] or 1)
    return "-XX:+UseSerialGC" if cores <= 2 else "-XX:+UseParallelGC"


def trying_again(master: str) -> str:
    """A master that tries a task again, as clusters do by themselves: Spark's local one would give the batch up because a Python worker
    was killed, for want of memory perhaps.
    """
    local = _LOCAL.fullmatch(master)
    return f"local[{local[1] or 1}, {_TRIES}]" if local else master


def log_store(conf: dict[str, str]) -> dict[str, str]:
    """What Spark commits by, where nobody names it a class for all file systems: Delta takes one or the other."""
    return {} if "spark.delta.logStore.class" in conf else EXCLUSIVE


def settings(pipeline: Pipeline, *, short: bool = False) -> dict[str, str]:
    """What a job's session is given beside :data:`DEFAULTS`; the pipeline file has the last word, but of what is joined: it adds to what is
    hidden, and shows none of it. ``short``: with :data:`SHORT`.
    """
    local = LOCAL_CHECKPOINT if is_local(pipeline.lake.path) else {}
    flows = FLOWS if pipeline.flows else {}
    if flows and pipeline.spark.master.startswith("local"):
        flows = {**flows, **OUTLASTS_A_FULL_HEAP}
    store = object_store.spark_settings(pipeline.lake)
    hidden = {REDACTION: client_settings.HIDDEN} if pipeline.kafka.security else {}
    away = cluster.settings(pipeline.spark)
    ours = {**local, **away, **store, **hidden, **flows, **(SHORT if short else {})}
    if names := private_settings.hidden(pipeline.spark):
        ours |= {shown: f"{usual}|{names}" for shown, usual in SPARK_HIDES.items()}
    said = pipeline.spark.conf
    usual = {**SPARK_HIDES, **ours}
    joined = {
        name: between.join(filter(None, (usual[name], said[name])))
        for name, between in _JOINED.items()
        if name in usual and name in said
    }
    return {**ours, **said, **joined}


def for_pipeline(
    pipeline: Pipeline,
    log: Path,
    *,
    short: bool = False,
    stopping: Callable[[], bool] = lambda: False,
) -> SparkSession:
    """The session of a pipeline's job. ``short``: as :func:`settings` has it; ``stopping``: whether nobody waits for it any more. Raises
    :class:`IngestError` where a cluster does not take it, or has nobody who can run our tasks.
    """
    spark, conf = pipeline.spark, settings(pipeline, short=short)
    private = {**private_settings.read(spark), **cluster.private_settings(spark)}
    try:
        session = create(
            f"ingest-{pipeline.name}",
            master=spark.master,
            driver_memory=spark.driver_memory,
            conf=conf,
            log=log,
            more=_groups(pipeline),
            of_user=spark.jars,
            private=private,
            python=cluster.python(spark) if spark.on_cluster else sys.executable,
        )
    except (Py4JError, PySparkException) as failure:
        if not spark.on_cluster or has_died(failure):
            raise
        raise cluster.not_taken(spark.master, failure, log) from failure
    if spark.on_cluster:
        try:
            executors.await_one(session, stopping=stopping)
            executors.watch(session, shipped_packages.ours(conf.get("spark.archives", "")))
            if not stopping():
                executors.refuse_unfit(session)
        except BaseException:
            end(session)
            raise
    return session


def _groups(pipeline: Pipeline) -> list[str]:
    jdbc = ["jdbc"] if any(one.reads_mysql for one in pipeline.flows.values()) else []
    return [*jdbc, *(["s3"] if is_s3(pipeline.lake.path) else [])]


@contextmanager
def _ctrl_c_kept() -> Iterator[None]:
    """PySpark has Ctrl-C cancel all jobs and interrupt the program; a run that has said otherwise stops behind its batch."""
    if threading.current_thread() is not threading.main_thread():
        yield  # where nobody can set it
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _stderr_into(log: Path) -> Iterator[None]:
    """The JVM inherits this process's stderr when it starts; give it the log file instead."""
    sys.stderr.flush()
    saved = os.dup(2)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(file, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(file)


_LOST = (Py4JError, ConnectionError, EOFError)
"""What a call raises whose answer never comes. ``Py4JJavaError``, one of the first, is an answer."""

_ENDS_WITHIN = 5.0
"""Seconds that a process may take from closing its connections to its end."""


def has_died(failure: BaseException) -> bool:
    """True when the JVM, a child process of ours, is gone, or Spark in it has ended, of which ``failure`` may be the first sign: its connections close a
    moment before it can be seen to have ended.
    """
    if isinstance(failure, PySparkRuntimeError) and "JAVA_GATEWAY_EXITED" in str(failure):
        return True  # it has not even come to listen
    lost = isinstance(failure, _LOST) and not isinstance(failure, Py4JJavaError)
    if getattr(SparkContext._gateway, "proc", None) is None:
        return lost  # it was about to be heard for the first time
    return has_ended(_ENDS_WITHIN if lost else 0) or is_stopped()


def has_ended(within: float = 0) -> bool:
    """Whether the JVM, a child process of ours, is gone."""
    process = getattr(SparkContext._gateway, "proc", None)
    try:
        return process is not None and process.wait(within) is not None
    except subprocess.TimeoutExpired:
        return False


def is_stopped() -> bool:
    """Whether a session that we have not ended is over, as where the cluster's master has removed the application."""
    context = SparkContext._active_spark_context
    if context is None or has_ended():
        return False
    try:
        return bool(context._jsc.sc().isStopped())
    except (Py4JError, OSError, AttributeError):  # it ends at this moment
        return False


def end(session: SparkSession | None) -> None:
    """Stop Spark, as far as it is there: how a run has ended is not to be hidden by how Spark ends."""
    if session is None:
        return
    executors.unwatch()
    with suppress(Py4JError, OSError), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PySpark's own, that it is gone already
        session.stop()
