"""The demo, and the conformance suite, on a Spark cluster of this machine's own.

    python -m tests.integration.on_a_cluster demo
    python -m tests.integration.on_a_cluster conformance [--histories 16] [--seed 1]

The demo's lake is in an S3 server, as a cluster's is. The suite's is in a folder that the cluster's machines share, since it looks into it by
itself; its rows stay with the tasks, which Spark merges.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from pathlib import Path

from ingest.config.pipeline_file import Pipeline
from ingest.demo import Demo
from ingest.job import spark_session
from ingest.testing.lake import pipeline_at
from tests.conformance.histories import history
from tests.conformance.suite import mirrors_conform
from tests.conformance.targets import SparkTarget
from tests.support import s3
from tests.support.cluster import Cluster

TOGETHER = 8
"""Histories of one lake, a table each."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["demo", "conformance"])
    parser.add_argument("--histories", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ingest-cluster-") as place:
        home = Path(place)
        if given.what == "demo":
            demo(home)
        else:
            conformance(home, given.histories, given.seed)


def demo(home: Path) -> None:
    """Ends in its proof, or in an error."""
    store = s3.start(home / "s3")
    cluster = Cluster(home / "cluster", hidden=[store.home / "data"])
    try:
        cluster.start()
        lake = {"path": f"s3a://{s3.BUCKET}/demo", "storage": store.storage()}
        spark = cluster.settings(driver_max={"changes": 0})
        Demo(home / "demo", settings={"lake": lake, "spark": spark}).execute()
    finally:
        cluster.stop()
        store.stop()


def conformance(home: Path, histories: int, seed: int) -> None:
    """Drawn histories, with crashes; ends with an error at the first that does not conform."""
    cluster = Cluster(home / "cluster")
    try:
        cluster.start()
        session = spark_session.for_pipeline(_shared(home, cluster), home / "spark.log")
        assert session.sparkContext.master == cluster.master
        for start in range(0, histories, TOGETHER):
            drawn = [history(random.Random(f"{seed} {start + n}")) for n in range(TOGETHER)]
            target = SparkTarget(session, home / "lakes", *drawn, spark={"merge_engine": "spark"})
            try:
                mirrors_conform(drawn, target)
            finally:
                target.remove()
            print(f"{start + TOGETHER} histories conform on a cluster", flush=True)
        spark_session.end(session)
    finally:
        cluster.stop()


def _shared(home: Path, cluster: Cluster) -> Pipeline:
    lake = {"path": str(home / "lakes"), "shared": True}
    return pipeline_at(home / "lakes", "h", lake=lake, spark=cluster.settings())


if __name__ == "__main__":
    main()
