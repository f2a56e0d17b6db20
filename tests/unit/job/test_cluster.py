"""`cluster` and `shipped_packages`: what a job says to a cluster, and what it brings there."""

import json
import os
import socket
import subprocess
import sys
import time
import venv
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyspark
import pytest
import yaml
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException

from ingest.batch import own_version
from ingest.config import pipeline_file
from ingest.config.connection_settings import Password
from ingest.config.spark_settings import Spark
from ingest.job import (
    cluster,
    executors,
    private_settings,
    shipped_packages,
    spark_session,
    stream_failure,
)
from ingest.model.errors import IngestError
from tests.unit.config.test_pipeline_file import GOOD

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


def test_a_user_s_own_archives_and_search_path_stand_behind_ours(master):
    conf = {"spark.archives": "x.zip#mine", "spark.executorEnv.PYTHONPATH": "mine"}
    text = yaml.safe_load(GOOD)
    text["spark"] = {"master": f"spark://{master}", "conf": conf}
    said = spark_session.settings(pipeline_file.parse(yaml.safe_dump(text)))
    ours = ["ingest-code", "ingest-packages", "mine"]
    assert [one.rpartition("#")[2] for one in said["spark.archives"].split(",")] == ours
    assert said["spark.executorEnv.PYTHONPATH"].split(":") == ours


@pytest.mark.parametrize("kind", ["yarn", "k8s://127.0.0.1:{}"])
def test_other_clusters_are_encrypted_unless_the_file_says_that_they_are_not(
    master, monkeypatch, kind
):
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    where, conf = kind.format(master.rpartition(":")[2]), {"spark.authenticate": "false"}
    assert cluster.settings(Spark(master=where))["spark.network.crypto.enabled"] == "true"
    assert "spark.network.crypto.enabled" not in cluster.settings(Spark(master=where, conf=conf))


def test_yarn_without_hadoop_s_files_is_said(monkeypatch):
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(IngestError, match="HADOOP_CONF_DIR"):
        cluster.settings(Spark(master="yarn"))


def test_a_master_that_is_away_is_said_before_spark_starts():
    with pytest.raises(IngestError, match="127.0.0.1:1 ") as failure:
        cluster.settings(Spark(master="spark://127.0.0.1:1"))
    assert failure.value.code == "E-SPARK-MASTER"


def test_the_masters_of_each_kind_of_cluster_are_known():
    assert Spark(master="yarn").masters == Spark(master="local[4]").masters == []
    assert Spark(master="k8s://https://host:6443").masters == [("host", 6443)]
    assert Spark(master="k8s://http://host").masters == [("host", 80)]
    assert Spark(master="k8s://host").masters == [("host", 443)]
    conf = {"spark.authenticate": "false"}
    assert Spark(master="spark://a:1,b", conf=conf).masters == [("a", 1), ("b", 7077)]


def session(conf):
    return SimpleNamespace(
        conf=conf, sparkContext=SimpleNamespace(master="spark://m:1", getConf=lambda: conf)
    )


def test_a_cluster_that_gives_nobody_ends_in_a_sentence_with_the_driver_s_address(monkeypatch):
    monkeypatch.setattr(executors, "there", lambda _: 0)
    conf = {"spark.driver.host": "10.0.0.5", "spark.driver.port": "4711"}
    with pytest.raises(IngestError, match="no executor") as failure:
        executors.await_one(session(conf), wait=0, sleep=lambda _: None)
    assert "10.0.0.5:4711" in failure.value.remedy
    executors.await_one(session(conf), wait=0, stopping=lambda: True)
    executors.await_one(session({"spark.dynamicAllocation.enabled": "true"}), wait=0)


def test_patience_ends_only_where_there_was_work_and_nobody_for_long_and_until_somebody_comes():
    patience = executors.Patience()
    long = executors.WAIT + 1
    for now, there, working, over in (
        (0, 1, True, False),
        (long, 0, True, False),
        (2 * long, 0, False, False),  # as where Spark lets executors go that have nothing to do
        (3 * long, 0, True, False),
        (4 * long, 1, True, False),
        (5 * long, 0, True, False),
        (6 * long, 0, True, True),
        (6 * long + 1, 0, False, True),  # its jobs were cancelled, and more may come
        (6 * long + 2, 0, True, True),
        (6 * long + 3, 1, True, False),
    ):
        assert patience.look(there, working=working, now=now) == over, now


def test_jobs_are_cancelled_as_long_as_nobody_is_there_and_whoever_fails_is_told_why(monkeypatch):
    there, cancelled = [0], []
    context = SimpleNamespace(
        master="spark://m:1",
        getConf=dict,
        statusTracker=lambda: SimpleNamespace(getActiveJobsIds=lambda: [1]),
        cancelAllJobs=lambda: cancelled.append(1),
    )
    monkeypatch.setattr(executors, "there", lambda _: there[0])
    monkeypatch.setattr(executors, "WAIT", -1.0)
    dog = executors.Watchdog(SimpleNamespace(sparkContext=context))
    monkeypatch.setattr(executors, "_watching", [dog])
    dog._look()
    dog._look()
    assert len(cancelled) == 2
    assert executors.lost().code == "E-SPARK-EXECUTORS"
    there[0] = 1
    dog._look()
    assert executors.lost() is None
    assert len(cancelled) == 2


def test_a_watch_goes_on_behind_an_error_of_java_s_and_ends_with_java(monkeypatch):
    full = Py4JJavaError("a full heap", SimpleNamespace(_target_id="o1"))
    looks, found = [], [full, full, None, Py4JNetworkError("gone"), None]

    def look(_):
        looks.append(found[len(looks)])
        if looks[-1] is not None:
            raise looks[-1]

    monkeypatch.setattr(executors, "_EVERY", 0.0)
    monkeypatch.setattr(executors.Watchdog, "_look", look)
    executors.Watchdog(SimpleNamespace())._run()
    assert looks == found[:4]


CANCELLED = """An error occurred while calling o1.toArrow.
: org.apache.spark.SparkException: [SPARK_JOB_CANCELLED] Job 0 cancelled as part of cancellation of all jobs SQLSTATE: XXKDA
\tat org.apache.spark.errors.SparkCoreErrors$.sparkJobCancelledError(SparkCoreErrors.scala:1)
\t... 12 more
"""


def test_an_executor_that_goes_before_it_is_asked_is_no_unfit_python(monkeypatch):
    gone = IngestError("E-SPARK-EXECUTORS", "none there", remedy="", may_pass=True)
    monkeypatch.setattr(executors, "mapped", failing(PySparkException(CANCELLED)))
    monkeypatch.setattr(executors, "there", lambda _: 1)
    monkeypatch.setattr(executors, "lost", lambda: gone)
    with pytest.raises(IngestError, match="none there"):
        executors.refuse_unfit(asked())


def test_why_a_machine_cannot_run_tasks_is_no_line_of_java_s_stack(monkeypatch):
    monkeypatch.setattr(executors, "mapped", failing(PySparkException(CANCELLED)))
    monkeypatch.setattr(executors, "there", lambda _: 1)
    with pytest.raises(IngestError, match="SPARK_JOB_CANCELLED") as failure:
        executors.refuse_unfit(asked())
    assert failure.value.code == "E-SPARK-PYTHON"
    assert "more" not in failure.value.what


def running(*theirs):
    """Machines that say so, and what was asked of them: `mapped` without Spark."""
    asked = []

    def mapped(_, probe, schema):
        assert schema == "version string"
        asked.append(probe)
        own = [row for some in probe(iter([None])) for row in some.column("version").to_pylist()]
        return SimpleNamespace(toArrow=lambda: pa.table({"version": [*own, *theirs]}))

    return mapped


def test_executors_that_have_what_runs_here_are_fit(monkeypatch):
    same = {**own_version.held(), "machine": "worker-2", "python": "3.11.99"}
    monkeypatch.setattr(executors, "mapped", running(json.dumps(same)))
    monkeypatch.setattr(executors, "there", lambda _: 2)
    numbers = []
    executors.refuse_unfit(SimpleNamespace(range=lambda *some: numbers.append(some)))
    assert numbers == [(0, 2, 1, 2)], "as many tasks as executors"


@pytest.mark.parametrize(
    ("theirs", "named"),
    [
        ({"ingest's code": "0123"}, "worker-2 has ingest's code 0123, here "),
        ({"pyarrow": "1.0"}, f"worker-2 has pyarrow 1.0, here {pa.__version__}"),
        ({"confluent-kafka": "0.9"}, "worker-2 has confluent-kafka 0.9, here "),
        (None, "one of them has ingest of an earlier version, here "),
    ],
)
def test_an_executor_that_runs_other_code_is_named_with_both(monkeypatch, theirs, named):
    said = json.dumps({**own_version.held(), "machine": "worker-2", **theirs}) if theirs else "3.11"
    monkeypatch.setattr(executors, "mapped", running(said))
    monkeypatch.setattr(executors, "there", lambda _: 2)
    with pytest.raises(IngestError, match="other code") as failure:
        executors.refuse_unfit(asked())
    assert failure.value.code == "E-SPARK-PYTHON"
    assert named in failure.value.what


def test_code_is_told_by_what_its_files_hold_and_not_by_when_they_came(tmp_path):
    def digest(folder, text, when):
        file = tmp_path / folder / "a" / "b.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        os.utime(file, (when, when))
        return own_version._code(tmp_path / folder)

    assert digest("one", "x", 1) == digest("two", "x", 2)
    assert digest("one", "x", 1) != digest("two", "y", 1)


def asked():
    """A session that is asked for nothing but numbers."""
    return SimpleNamespace(range=lambda *_: None)


def failing(failure):
    def mapped(*_):
        raise failure

    return mapped


@pytest.mark.parametrize("failure", [ConnectionRefusedError(111), Py4JError("x"), AttributeError()])
def test_a_jvm_that_is_gone_is_not_taken_for_one_whose_spark_has_ended(monkeypatch, failure):
    class Gone:
        @property
        def _jsc(self):
            raise failure

    monkeypatch.setattr(spark_session.SparkContext, "_active_spark_context", Gone())
    assert not spark_session.is_stopped()
    ended = SimpleNamespace(proc=SimpleNamespace(wait=lambda _: -9))
    monkeypatch.setattr(spark_session.SparkContext, "_gateway", ended)
    assert stream_failure.spark_died(Path("log")).code == "E-SPARK-DIED"


def test_a_session_that_a_cluster_has_ended_has_died(monkeypatch):
    def refuses(_):
        raise subprocess.TimeoutExpired("java", 0)

    stopped = SimpleNamespace(
        _jsc=SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: True))
    )
    monkeypatch.setattr(spark_session.SparkContext, "_active_spark_context", stopped)
    alive = SimpleNamespace(proc=SimpleNamespace(wait=refuses))
    monkeypatch.setattr(spark_session.SparkContext, "_gateway", alive)
    assert spark_session.has_died(ValueError("Cannot call methods on a stopped SparkContext"))
    assert stream_failure.spark_died(Path("log")).code == "E-SPARK-STOPPED"


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


def test_what_a_job_brings_to_machines_that_come_stays_as_long_as_it_runs(monkeypatch, tmp_path):
    """Another job, of other versions, clears away what nobody has used for a month."""
    monkeypatch.setenv("INGEST_CACHE", str(tmp_path))
    folder = tmp_path / "shipped"
    folder.mkdir()
    mine, old, users = folder / "code-1.zip", folder / "code-0.zip", tmp_path / "mine.zip"
    for file in (mine, old, users):
        file.touch()
    said = f"{mine}#ingest-code,{users}#data,hdfs:///x.zip#more"
    assert shipped_packages.ours(said) == [mine]
    dog = executors.Watchdog(SimpleNamespace(), shipped_packages.ours(said))
    long_ago = time.time() - 31 * 86400
    for hours, stays in ((0, True), (0.5, False), (1.5, True)):
        for file in (mine, old, users):
            file.touch()
            os.utime(file, (long_ago, long_ago))
        dog._keep_archives(3600 * hours)
        shipped_packages._forget_old([])
        assert (mine.exists(), old.exists(), users.exists()) == (stays, False, True), hours
    mine.unlink()
    dog._keep_archives(3600 * 9)  # somebody has cleared the cache: nothing is to be done here


def test_a_package_that_is_a_link_to_a_folder_is_said_and_not_left_out(monkeypatch):
    link = SimpleNamespace(files=[Path("_mine.pth"), Path("mine.dist-info/RECORD")], requires=[])
    monkeypatch.setattr(shipped_packages.metadata, "distribution", lambda _: link)
    with pytest.raises(IngestError, match="'mine' is to go .* as a link") as failure:
        shipped_packages.archives(["mine"])
    assert failure.value.code == "E-SPARK-SHIP"


def test_a_secret_is_told_by_a_file_of_this_user_alone_that_is_gone_afterwards(monkeypatch):
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--verbose pyspark-shell")
    with private_settings.told({"a.b": "ä=\\ \U0001f600"}):
        said = os.environ["PYSPARK_SUBMIT_ARGS"].split()
        file = Path(said[said.index("--properties-file") + 1])
        assert file.parent.stat().st_mode & 0o077 == 0
        assert file.read_text("ascii") == "a.b=\\u00e4\\u003d\\u005c\\u0020\\ud83d\\ude00\n"
        assert said[0] == "--verbose"
        assert said[-1] == "pyspark-shell"
        assert said.count("pyspark-shell") == 1
    assert not file.exists()
    assert os.environ["PYSPARK_SUBMIT_ARGS"] == "--verbose pyspark-shell"


def test_executors_run_the_driver_s_version_of_python_unless_they_are_told_another():
    assert cluster.python(Spark()) == f"python3.{sys.version_info.minor}"
    assert cluster.python(Spark(python="/opt/python")) == "/opt/python"
