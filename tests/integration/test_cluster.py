"""A job whose tasks run on a Spark cluster, on machines that have nothing of ours, with its lake in an object store."""

import json
import time

import psutil
import pytest
import yaml

from tests.support import s3
from tests.support.cluster import Cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, store):
    running = Cluster(tmp_path_factory.mktemp("cluster"), hidden=[store.home / "data"])
    try:
        running.start()
        yield running
    finally:
        running.stop()


def settings(cli, mysql, store, cluster, name, **spark):
    mysql.database(name)
    mysql.sql(
        f"CREATE TABLE {name}.orders (id INT PRIMARY KEY, note VARCHAR(40))",
        f"CREATE TABLE {name}.log (line VARCHAR(40))",
        f"INSERT INTO {name}.orders VALUES (1, 'one'), (2, 'two')",
        f"INSERT INTO {name}.log VALUES ('a'), ('a'), (NULL)",
    )
    file = cli.init(name, f"{name}.*")
    said = yaml.safe_load(file.read_text())
    said["lake"] = {
        "path": f"s3a://{s3.BUCKET}/{name}-{time.time_ns()}",
        "storage": store.storage(),
    }
    said["spark"] = cluster.settings(**spark)
    file.write_text(yaml.safe_dump(said))
    return file


def went(done):
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def seen_of_all():
    """Command lines and environments of all processes that other users of this machine could see the former of."""
    for one in psutil.process_iter():
        try:
            yield " ".join(one.cmdline())
        except psutil.Error:
            continue


def test_a_cluster_s_machines_need_nothing_of_ours_and_the_lake_is_equal(
    cli, mysql, store, cluster
):
    file = settings(cli, mysql, store, cluster, "clustered")
    went(cli.once(file))
    mysql.sql(
        "UPDATE clustered.orders SET note = 'second' WHERE id = 2",
        "ALTER TABLE clustered.orders ADD COLUMN more INT DEFAULT 7",
        "INSERT INTO clustered.orders VALUES (3, 'three', 3)",
        "DELETE FROM clustered.log WHERE line = 'a' LIMIT 1",
    )
    went(cli.once(file))
    assert "EQUAL" in went(cli("audit", str(file), "--wait", "60")).stdout
    lanes = json.loads(went(cli("status", str(file), "--json")).stdout)
    assert lanes["gaps"] == []
