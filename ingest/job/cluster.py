"""A job whose tasks run on other machines: where these call back, which Python and packages they find, what keeps strangers out.

The driver stays where the command was given (Spark's client mode); it decides, and commits. Executors fetch its jars and
packages from it when they start, so their machines need Spark and a Python of the driver's version, and nothing of ours.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pyspark

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

_ANSWERS_WITHIN = 5.0
"""Seconds, for a master. Spark itself asks for a minute and ends with a traceback."""


def python(spark: Spark) -> str:
    """What executors start Python by."""
    return spark.python or f"python{sys.version_info.major}.{sys.version_info.minor}"


def settings(spark: Spark) -> dict[str, str]:
    """What a cluster's session is given beside the usual; empty on one machine. Raises :class:`IngestError` where no master is there."""
    if not spark.on_cluster:
        return {}
    _refuse_unknown_yarn(spark)
    found = dict(SETTINGS)
    if spark.masters:
        address = _address_towards(spark.masters)
        named = f"[{address}]" if ":" in address else address
        found |= {"spark.driver.host": named, "spark.driver.bindAddress": address}
    if spark.secret is not None or not (spark.master.startswith("spark://") or spark.in_clear):
        found |= ENCRYPTED
    if spark.packages == "shipped":
        archives = shipped_packages.archives(spark.ship)
        found["spark.archives"] = ",".join(f"{file}#{name}" for name, file in archives.items())
        found["spark.executorEnv.PYTHONPATH"] = ":".join(archives)
    return found


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


def _refuse_unknown_yarn(spark: Spark) -> None:
    """Spark's launcher would end without a word that reaches us."""
    if spark.master == "yarn" and not {"HADOOP_CONF_DIR", "YARN_CONF_DIR"} & os.environ.keys():
        raise IngestError(
            "E-SPARK-MASTER",
            "Where YARN is stands in Hadoop's files, and neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set.",
            means="Nothing was started.",
            remedy="set one of them to the folder with `yarn-site.xml` and `core-site.xml`.",
        )


_SAME_SETUP = (
    " and have our `spark.secret` as their `spark.authenticate.secret`, beside `spark.authenticate true`, `spark.network.crypto.enabled true` "
    "and `spark.network.crypto.cipher AES/GCM/NoPadding`"
)


def not_taken(master: str, failure: Exception, log: Path) -> IngestError:
    """A session that has not come to be."""
    said = str(failure).strip().splitlines()
    named = [line.strip() for line in said if "Exception: " in line or "Error: " in line]
    return IngestError(
        "E-SPARK-REGISTER",
        f"The cluster {master} has not taken the job: {(named or said or ['no reason given'])[0][:300]}",
        means="Nothing was changed in the lake.",
        remedy=f"see that its machines are of Spark {pyspark.__version__}"
        f"{_SAME_SETUP if master.startswith('spark://') else ''}. {log} has all of Spark's own words.",
        exit_code=Exit.FAILED,
    )
