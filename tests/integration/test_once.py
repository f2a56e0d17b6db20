"""`ingest run --once`: how the job that it starts is set up."""

import os
import subprocess
import sys

import psutil
import pytest

from ingest.config.pipeline_file import load
from ingest.model.topics import TableId
from ingest.source import mysql


@pytest.mark.long  # speed alone hangs on it: no row is another one
def test_its_java_has_one_compiler_where_spark_has_little_to_compute(cli, server, stack):
    server.database("once")
    server.sql(
        "CREATE TABLE once.t (id INT PRIMARY KEY, v INT)", "INSERT INTO once.t VALUES (1, 1)"
    )
    server.sql("CREATE TABLE once.other (id INT, v INT, KEY (id))")
    file = cli.init("once", "once.t")
    # What the tests' own jobs are given says the same of Java.
    file.write_text(file.read_text().partition("\nspark:")[0])
    with mysql.connected(load(file).source) as cursor:
        keyed = mysql.keyed(cursor)
    assert TableId("once", "t") in keyed
    assert TableId("once", "other") not in keyed
    with (cli.folder / "job.out").open("wb") as said:
        job = subprocess.Popen(
            [sys.executable, "-m", "ingest", "run", str(file), "--once"],
            stdout=said,
            stderr=subprocess.STDOUT,
            cwd=cli.folder,
            env={**os.environ, "INGEST_HOME": str(stack.home)},
        )
        java = None
        while java is None and job.poll() is None:
            java = java_of(job.pid)
        assert job.wait(120) == 0, (cli.folder / "job.out").read_text()
    assert "-XX:TieredStopAtLevel=1" in java


def java_of(job: int) -> str | None:
    """The command line of Spark's Java, once it runs."""
    try:
        lines = [" ".join(one.cmdline()) for one in psutil.Process(job).children(recursive=True)]
    except psutil.NoSuchProcess:
        return None
    return next((line for line in lines if "SparkSubmit" in line and "-Xss4m" in line), None)
