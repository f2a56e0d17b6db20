"""`cluster` and `shipped_packages`: what a job says to a cluster, and what it brings there."""

import os
import socket
import subprocess
import sys
import venv
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pyspark
import pytest

from ingest.config.connection_settings import Password
from ingest.config.spark_settings import Spark
from ingest.job import cluster, shipped_packages, spark_session
from ingest.model.errors import IngestError

IMPORTED_IN_TASKS = """
import ingest.batch.in_task, ingest.kafka.fetch, ingest.arrow.kept_rows, ingest.arrow.folded_pieces
import ingest.flows.mysql_rows, ingest.flows.redis_sink
import pymysql, redis, cryptography.hazmat.primitives.asymmetric.rsa
print(ingest.__file__)
"""


@pytest.fixture
def master():
    """Somebody who listens, as a master does."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_executors_call_the_driver_where_it_reached_their_master(master, monkeypatch):
    monkeypatch.setenv("SECRET", "hunter2")
    spark = Spark(master=f"spark://127.0.0.1:1,{master}", secret=Password(env="SECRET"))
    said = cluster.settings(spark)
    assert said["spark.driver.host"] == said["spark.driver.bindAddress"] == "127.0.0.1"
    assert said["spark.authenticate"] == said["spark.network.crypto.enabled"] == "true"
    assert "hunter2" not in str(said)
    assert cluster.private_settings(spark) == {"spark.authenticate.secret": "hunter2"}


@pytest.mark.parametrize("secret", ["", " x", "x\n", "schlüssel", "a\tb"])
def test_a_secret_that_would_not_reach_executors_as_it_is_is_refused(monkeypatch, secret):
    monkeypatch.setenv("SECRET", secret)
    with pytest.raises(IngestError, match="secret is empty, begins"):
        cluster.private_settings(Spark(master="spark://127.0.0.1:1", secret=Password(env="SECRET")))


def test_on_one_machine_nothing_is_said_of_clusters():
    assert cluster.settings(Spark()) == cluster.private_settings(Spark()) == {}


def test_a_user_s_own_archives_go_beside_ours(master):
    said = cluster.settings(
        Spark(master=f"spark://{master}", conf={"spark.archives": "x.zip#mine"})
    )["spark.archives"]
    assert [one.rpartition("#")[2] for one in said.split(",")] == [
        *("ingest-code", "ingest-packages", "mine")
    ]


def test_a_master_that_is_away_is_said_before_spark_starts():
    with pytest.raises(IngestError, match="127.0.0.1:1 ") as failure:
        cluster.settings(Spark(master="spark://127.0.0.1:1"))
    assert failure.value.code == "E-SPARK-MASTER"


def test_the_masters_of_each_kind_of_cluster_are_known():
    assert Spark(master="yarn").masters == Spark(master="local[4]").masters == []
    assert Spark(master="k8s://https://host:6443").masters == [("host", 6443)]
    assert Spark(master="k8s://host").masters == [("host", 443)]
    conf = {"spark.authenticate": "false"}
    assert Spark(master="spark://a:1,b", conf=conf).masters == [("a", 1), ("b", 7077)]


def session(conf):
    return SimpleNamespace(
        conf=conf, sparkContext=SimpleNamespace(master="spark://m:1", getConf=lambda: conf)
    )


def test_a_cluster_that_gives_nobody_ends_in_a_sentence_with_the_driver_s_address(monkeypatch):
    monkeypatch.setattr(cluster, "executors", lambda _: 0)
    conf = {"spark.driver.host": "10.0.0.5", "spark.driver.port": "4711"}
    with pytest.raises(IngestError, match="no executor") as failure:
        cluster.await_executor(session(conf), wait=0, sleep=lambda _: None)
    assert "10.0.0.5:4711" in failure.value.remedy
    cluster.await_executor(session({"spark.dynamicAllocation.enabled": "true"}), wait=0)


def test_a_job_gives_up_only_where_nobody_has_been_there_for_long(monkeypatch):
    there, now = [0], [0.0]
    monkeypatch.setattr(cluster, "executors", lambda _: there[0])
    presence = cluster.Presence(session({}), lambda: now[0])
    for now[0], there[0], hope in (
        (cluster.WAIT, 0, True),
        (cluster.WAIT + 10, 1, True),
        (2 * cluster.WAIT, 0, True),
        (2 * cluster.WAIT + 20, 0, False),
        (2 * cluster.WAIT + 40, 1, True),
    ):
        assert (presence.lost() is None) == hope, now


def test_what_a_task_imports_is_in_what_is_shipped(tmp_path):
    venv.create(tmp_path / "python", symlinks=True, with_pip=False)
    for name, archive in shipped_packages.archives().items():
        with zipfile.ZipFile(archive) as held:
            held.extractall(tmp_path / name)
            assert not [one for one in held.namelist() if one.startswith(("pyspark/", "py4j/"))]
    theirs = [str(one) for one in (Path(pyspark.__file__).parent / "python" / "lib").glob("*.zip")]
    found = subprocess.run(
        [
            tmp_path / "python" / "bin" / "python",
            "-c",
            IMPORTED_IN_TASKS,
        ],
        env={"PYTHONPATH": os.pathsep.join(["ingest-packages", "ingest-code", *theirs])},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.strip() == str(tmp_path / "ingest-code" / "ingest" / "__init__.py")


def test_the_same_packages_are_one_archive_and_others_another(monkeypatch, tmp_path):
    monkeypatch.setenv("INGEST_CACHE", str(tmp_path))
    monkeypatch.setattr(shipped_packages, "TASKS_IMPORT", ("pymysql",))
    once, again = shipped_packages.archives(["PyMySQL"]), shipped_packages.archives()
    more = shipped_packages.archives(["Chispa"])
    assert once == again
    assert once["ingest-code"] == more["ingest-code"]
    with zipfile.ZipFile(more["ingest-packages"]) as held:
        assert "chispa/__init__.py" in held.namelist()
    with pytest.raises(IngestError, match="'no-such-thing' is to go") as failure:
        shipped_packages.archives(["no_such.thing"])
    assert failure.value.code == "E-SPARK-SHIP"


def test_a_secret_is_told_by_a_file_of_this_user_alone_that_is_gone_afterwards(monkeypatch):
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--verbose pyspark-shell")
    with spark_session._told_privately({"a.b": "ä=\\ \U0001f600"}):
        said = os.environ["PYSPARK_SUBMIT_ARGS"].split()
        file = Path(said[said.index("--properties-file") + 1])
        assert file.parent.stat().st_mode & 0o077 == 0
        assert file.read_text("ascii") == "a.b=\\u00e4\\u003d\\u005c\\u0020\\ud83d\\ude00\n"
        assert said[-2:] == ["--verbose", "pyspark-shell"]
    assert not file.exists()
    assert os.environ["PYSPARK_SUBMIT_ARGS"] == "--verbose pyspark-shell"


def test_executors_run_the_driver_s_version_of_python_unless_they_are_told_another():
    assert cluster.python(Spark()) == f"python3.{sys.version_info.minor}"
    assert cluster.python(Spark(python="/opt/python")) == "/opt/python"
