"""A job whose tasks run on other machines: where these call back, which Python and packages they find, what keeps strangers out.

The driver stays where the command was given (Spark's client mode); it decides, and commits. Executors fetch its jars and
packages from it when they start, so their machines need Spark and a Python of the driver's version, and nothing of ours.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from ingest.config.spark_settings import Spark
from ingest.job import shipped_packages
from ingest.model.errors import Exit, IngestError

SETTINGS = {
    # What a first batch has in hand is shared out once it is known how much that is.
    "spark.sql.adaptive.enabled": "true",
    # One number for clusters of any size: what Spark's state is divided into stays as it was at its first batch.
    "spark.sql.shuffle.partitions": "16",
    "spark.databricks.delta.snapshotPartitions": "4",
    # As the driver's own process is set up: names of folders keep their letters, and there is one time zone.
    "spark.executorEnv.LC_ALL": "C.UTF-8",
    "spark.executorEnv.TZ": "UTC",
}
"""In place of what suits one small machine."""

ENCRYPTED = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
}
"""Driver and executors know one another, and what goes between them (rows, keys of stores, passwords of Kafka) is hidden."""

WAIT = 120.0
"""Seconds in which a cluster has to give a first executor; a machine that unpacks packages for the first time takes some ten."""

_LOOK_EVERY = 5.0
"""Seconds between two looks at who is there."""

_ANSWERS_WITHIN = 5.0
"""Seconds, for a master. Spark itself asks for a minute and ends with a traceback."""


def python(spark: Spark) -> str:
    """What executors start Python by."""
    return spark.python or f"python{sys.version_info.major}.{sys.version_info.minor}"


def settings(spark: Spark) -> dict[str, str]:
    """What a cluster's session is given beside the usual; empty on one machine. Raises :class:`IngestError` where no master is there."""
    if not spark.on_cluster:
        return {}
    found = dict(SETTINGS)
    if spark.masters:
        address = _address_towards(spark.masters)
        found |= {"spark.driver.host": address, "spark.driver.bindAddress": address}
    if spark.secret is not None or not spark.master.startswith("spark://"):
        found |= ENCRYPTED
    if spark.packages == "shipped":
        archives = shipped_packages.archives(spark.ship)
        found["spark.archives"] = ",".join(
            [*(f"{file}#{name}" for name, file in archives.items()), *_of_user(spark)]
        )
        found["spark.executorEnv.PYTHONPATH"] = ":".join(archives)
    return found


def _of_user(spark: Spark) -> list[str]:
    said = spark.conf.get("spark.archives")
    return [said] if said else []


def private_settings(spark: Spark) -> dict[str, str]:
    """What must not stand in a command line. Raises :class:`IngestError` where it is not to be had."""
    if spark.secret is None:
        return {}
    secret = spark.secret.read("the cluster's secret", "spark.secret").get_secret_value()
    if not (secret.isascii() and secret.isprintable() and secret.strip() == secret != ""):
        raise IngestError(
            "E-CONFIG-PASSWORD",
            "The cluster's secret is empty, begins or ends with a blank, or has other letters than those of ASCII.",
            means="Nothing was started. Workers hand it to executors by their environment, where such letters are lost in some locales, and nobody "
            "would come to the driver.",
            remedy="give the cluster another one, such as `openssl rand -hex 32` makes.",
        )
    return {"spark.authenticate.secret": secret}


def _address_towards(masters: Sequence[tuple[str, int]]) -> str:
    """By which this machine reaches the first of these that answers."""
    failures = list[str]()
    for host, port in masters:
        try:
            with closing(socket.create_connection((host, port), _ANSWERS_WITHIN)) as connection:
                return str(connection.getsockname()[0])
        except OSError as failure:
            failures.append(f"{host}:{port} ({failure.strerror or failure})")
    raise IngestError(
        "E-SPARK-MASTER",
        f"The cluster's master does not answer: {', '.join(failures)}.",
        means="Nothing was started.",
        remedy="start it, or correct `spark.master` in the pipeline file; `master: local[*]` needs none.",
        may_pass=True,
    )


def not_taken(master: str, failure: Exception, log: Path) -> IngestError:
    """A session that has not come to be."""
    said = str(failure).strip().splitlines()
    named = [line.strip() for line in said if "Exception: " in line or "Error: " in line]
    return IngestError(
        "E-SPARK-REGISTER",
        f"The cluster {master} has not taken the job: {(named or said or ['no reason given'])[0][:300]}",
        means="Nothing was changed in the lake.",
        remedy=f"see that master and workers are of Spark {pyspark.__version__}, and have our `spark.secret` as their "
        "`spark.authenticate.secret`, beside `spark.authenticate true`, `spark.network.crypto.enabled true` and "
        f"`spark.network.crypto.cipher AES/GCM/NoPadding`. {log} has all of Spark's own words.",
        exit_code=Exit.FAILED,
    )


def executors(session: SparkSession) -> int:
    """How many are there."""
    context: Any = session.sparkContext._jsc
    return len(context.sc().statusTracker().getExecutorInfos()) - 1  # the driver is one


def await_executor(
    session: SparkSession,
    *,
    wait: float = WAIT,
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Return when there is one, or when Spark asks for them only as there is work. Raises :class:`IngestError` where none comes."""
    if session.conf.get("spark.dynamicAllocation.enabled", "false") == "true":
        return
    until = time.monotonic() + wait
    while not executors(session):
        if time.monotonic() > until:
            raise none_there(session, wait)
        sleep(0.2)


class Presence:
    """Whether a running job has executors at all. ``clock``: seconds, monotonic."""

    def __init__(self, session: SparkSession, clock: Callable[[], float] = time.monotonic) -> None:
        self._session, self._clock = session, clock
        self._seen = self._looked = clock()

    def lost(self) -> IngestError | None:
        """What to end the batch in hand with, whose tasks nobody would ever run; None as long as there is hope."""
        now = self._clock()
        if now - self._looked < _LOOK_EVERY:
            return None
        self._looked = now
        if executors(self._session):
            self._seen = now
        return none_there(self._session, now - self._seen) if now - self._seen > WAIT else None


def none_there(session: SparkSession, waited: float) -> IngestError:
    """Nobody is there to do the work."""
    conf = session.sparkContext.getConf()
    driver = f"{conf.get('spark.driver.host')}:{conf.get('spark.driver.port')}"
    return IngestError(
        "E-SPARK-EXECUTORS",
        f"The cluster {session.sparkContext.master} has given no executor for {waited:.0f} seconds.",
        means="What was published stands; the next run goes on from there.",
        remedy="see on the master's page that a worker is alive and has a core and `spark.executor.memory` (1g unless `spark.conf` "
        f"says otherwise) free, and in the executors' logs that they reach the driver at {driver}, that their Python is "
        f"{sys.version_info.major}.{sys.version_info.minor}, and that the secret is the same everywhere.",
        may_pass=True,
    )
