"""`ingest run --once`: how the job that it starts is set up."""

import os
import subprocess
import sys

import psutil
import pytest

from ingest import mysql
from ingest.config import load
from ingest.topics import TableId


@pytest.mark.parametrize(
    ("name", "key", "first_alone"), [("keyed", "PRIMARY KEY", True), ("keyless", "", False)]
)
def test_its_java_has_one_compiler_where_spark_has_little_to_compute(
    cli, server, stack, name, key, first_alone
):
    server.database(name)
    server.sql(
        f"CREATE TABLE {name}.t (id INT {key}, v INT)", f"INSERT INTO {name}.t VALUES (1, 1)"
    )
    file = cli.init(name, f"{name}.*")
    # What the tests' own jobs are given says the same of Java.
    file.write_text(file.read_text().partition("\nspark:")[0])
    with mysql.connected(load(file).source) as cursor:
        assert (TableId(name, "t") in mysql.keyed(cursor)) is first_alone
    said = (cli.folder / "job.out").open("wb")
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
    assert ("-XX:TieredStopAtLevel=1" in java) is first_alone


def java_of(job: int) -> str | None:
    """The command line of Spark's Java, once it runs."""
    try:
        lines = [" ".join(one.cmdline()) for one in psutil.Process(job).children(recursive=True)]
    except psutil.NoSuchProcess:
        return None
    return next((line for line in lines if "SparkSubmit" in line and "-Xss4m" in line), None)
