"""A job whose tasks run on a Spark cluster, on machines that have nothing of ours, with its lake in an object store."""

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
import yaml
from deltalake import DeltaTable

from ingest.config import pipeline_file
from tests.kills.clustered import PATIENCE, VICTIMS, clustered
from tests.support import s3
from tests.support.cluster import PROJECT, Cluster, isolation
from tests.support.looking import Looking


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, store):
    data = store.home / "data"
    assert (data / s3.BUCKET).exists()
    running = Cluster(tmp_path_factory.mktemp("cluster"), hidden=[data])
    try:
        running.start()
        yield running
    finally:
        running.stop()


class Executors:
    """Which of this machine's folders those have that ran: ``seen`` after ``look``."""

    def __init__(self, cluster):
        self.cluster, self.seen, self.looked = cluster, set(), 0

    def look(self):
        for executor in self.cluster.executors():
            root = Path(f"/proc/{executor.pid}/root")
            ours = [PROJECT / "pyproject.toml", *(one / s3.BUCKET for one in self.cluster.hidden)]
            self.seen |= {one for one in ours if (root / one.relative_to("/")).exists()}
            self.looked += (root / "proc").exists()


def canaries(seen, done, cli, file, cluster, *secrets):
    """Where a secret stands that was told to nobody but whom it concerns."""
    logs = [*cluster.home.rglob("std*"), *cluster.home.rglob("*.out"), *cli.stack.home.rglob("*")]
    logs = [one for one in logs if one.is_file() and one.parent.name != "secrets"]
    texts = [one.read_text(errors="replace") for one in logs if one.suffix in (".out", ".log", "")]
    texts += [*seen.lines, done.stdout, done.stderr, file.read_text()]
    return [text[:200] for text in texts if any(one in text for one in secrets)]


def test_a_cluster_s_machines_need_nothing_of_ours_and_learn_its_secret_from_no_command_line(
    cli, mysql, cluster
):
    mysql.database("clustered")
    mysql.sql(
        "CREATE TABLE clustered.orders (id INT PRIMARY KEY, note VARCHAR(40))",
        "INSERT INTO clustered.orders VALUES (1, 'one'), (2, 'zwei ✓')",
    )
    file = cli.init("clustered", "clustered.*")
    said = yaml.safe_load(file.read_text())
    # Its rows stay with the tasks, which Spark merges there.
    said["spark"] = cluster.settings(driver_max={"changes": 0})
    file.write_text(yaml.safe_dump(said))
    executors = Executors(cluster)
    with Looking(executors.look) as seen:
        done = cli.once(file)
    assert done.returncode == 0, done.stdout + done.stderr
    lake = Path(pipeline_file.load(file).lake.path)
    orders = DeltaTable(lake / "clustered" / "orders").to_pyarrow_table().to_pylist()
    assert {(row["id"], row["note"]) for row in orders} == {(1, "one"), (2, "zwei ✓")}
    (table,) = json.loads(cli("status", str(file), "--json").stdout)["tables"]
    assert table["merged_by"].startswith("spark: its changes are with the cluster's tasks")
    assert canaries(seen, done, cli, file, cluster, cluster.secret.read_text()[:20]) == []
    have_nothing_of_ours(executors)


@pytest.mark.long
def test_with_its_lake_in_an_object_store_keys_reach_the_tasks_and_stand_nowhere(
    cli, mysql, store, cluster
):
    mysql.database("bucketed")
    mysql.sql(
        "CREATE TABLE bucketed.orders (id INT PRIMARY KEY, note VARCHAR(40))",
        "CREATE TABLE bucketed.log (line VARCHAR(40))",
        "INSERT INTO bucketed.orders VALUES (1, 'one'), (2, 'two')",
        "INSERT INTO bucketed.log VALUES ('a'), ('a'), (NULL)",
    )
    file, place = cli.init("bucketed", "bucketed.*"), f"bucketed-{time.time_ns()}"
    said = yaml.safe_load(file.read_text())
    said["lake"] = {"path": f"s3a://{s3.BUCKET}/{place}", "storage": store.storage()}
    said["spark"] = cluster.settings(driver_max={"changes": 0})
    file.write_text(yaml.safe_dump(said))
    executors = Executors(cluster)
    with Looking(executors.look) as seen:
        done = cli.once(file)
    assert done.returncode == 0, done.stdout + done.stderr
    mysql.sql(
        "UPDATE bucketed.orders SET note = 'second' WHERE id = 2",
        "ALTER TABLE bucketed.orders ADD COLUMN more INT DEFAULT 7",
        "INSERT INTO bucketed.orders VALUES (3, 'three', 3)",
        "DELETE FROM bucketed.log WHERE line = 'a' LIMIT 1",
    )
    assert cli.once(file).returncode == 0
    assert "EQUAL" in cli("audit", str(file), "--wait", "60").stdout
    log = DeltaTable(store.bucket / place / "bucketed" / "log")
    assert Counter(log.to_pyarrow_table()["line"].to_pylist()) == {"a": 1, None: 1}
    key = store.secret("key").read_text()
    assert canaries(seen, done, cli, file, cluster, key, cluster.secret.read_text()[:20]) == []
    have_nothing_of_ours(executors)


def have_nothing_of_ours(executors):
    """At a test's end: what it says of secrets and rows was tried all the same."""
    if not isolation():
        pytest.skip(
            "this machine gives no process mounts of its own (`unshare`): the cluster's machines have this project's folder and "
            "the store's, and that a job brings all it needs was not tried"
        )
    assert executors.looked
    assert executors.seen == set()


@pytest.mark.long
def test_whoever_of_a_cluster_is_killed_the_lake_ends_equal(stack, tmp_path):
    with clustered(stack, tmp_path, "victims") as here:
        here.lab.prepare()
        here.lab.start()
        here.lab.until_equal(PATIENCE)
        for number, victim in enumerate(VICTIMS):
            here.round(victim, "share_read", ddl=number % 2 == 1)


@pytest.mark.long
@pytest.mark.parametrize("what", ["demo", "conformance"])
def test_on_a_cluster_the_demo_ends_in_its_proof_and_drawn_histories_conform(what):
    # In a process of its own: Spark has one session in each.
    program = [sys.executable, "-m", "tests.integration.on_a_cluster", what, "--histories", "8"]
    done = subprocess.run(program, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {"demo": "PROOF lake = source", "conformance": "8 histories conform"}[
        what
    ] in done.stdout
