"""The kill matrix's slice on a Spark cluster with its lake in an object store: executors, workers and the master are victims, too.

    python -m tests.kills.clustered [--rounds 12] [--seed 1] [--ledger clustered.jsonl]

A round holds the job at a named place of a batch (or a task, inside an executor), writes more at the source, kills the victim by SIGKILL,
has what died come back as a service manager would (an executor is the cluster's own to bring back), and waits until the lake is
what MySQL says; then what its logs say must be true. The job is begun anew only where the driver was the victim, or where it ended by itself with an error of ours.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ingest.job.executors import WAIT
from ingest.local.stack import Stack
from ingest.model.errors import Exit
from tests.kills.lab import Lab, LabError
from tests.kills.matrix import SHARE
from tests.support import s3
from tests.support.cluster import Cluster

EVERYBODY = "all workers"
"""Come back only once the job has said that nobody is there."""
VICTIMS = ("executor", "worker", "master", "driver")
PLACES = (
    "batch_started",
    SHARE,
    "changes_prepared",
    "step_committed~{db}.keyed",
    "table_committed~{db}.bag",
    "tables_committed",
    "manifest_committed",
    "batch_logged",
)
SMALL = {"changes": 40, "megabytes": 8}
"""What comes to the driver: so some rounds' rows do, and those of others stay with the tasks."""
PATIENCE = 400
TRIES = 4
"""How often a round's job may end by itself and be begun anew."""


@dataclass
class Clustered:
    """A laboratory whose tasks run on ``cluster`` and whose lake is in ``store``."""

    lab: Lab
    cluster: Cluster
    begun_anew: list[str] = field(default_factory=list)
    _seen: int = 0

    def round(self, victim: str, place: str, *, ddl: bool) -> None:
        lab = self.lab
        self.begun_anew.clear()
        self._mark()
        lab.arm(place.format(db=lab.name))
        lab.change(ddl=ddl)
        lab.until_reached()
        lab.touch()
        self._kill(victim)
        lab.disarm()
        self._restart(victim)
        for _ in range(TRIES):
            try:
                return self._settle()
            except LabError:
                if lab.job is None or lab.job.process.poll() is None:
                    raise
                self._begin_anew()
        raise LabError(f"the job ended by itself again and again: {self.begun_anew}")

    def _settle(self) -> None:
        self.lab.until_equal(PATIENCE)
        self.lab.refuse_untrue()

    def _begin_anew(self) -> None:
        """As a service manager does, where it has ended by an error of ours. Raises ``LabError`` where by anything else."""
        assert self.lab.job is not None
        said = self.lab.job.log.read_text()[self._seen :]
        named = [line for line in said.splitlines() if line.lstrip().startswith("error E-")]
        status = self.lab.job.process.returncode
        if status != Exit.FAILED or not named or "Traceback" in said:
            raise LabError(f"the job ended with {status}: {said[-600:]}")
        self.begun_anew.append(named[-1].strip())
        self._mark()
        self.lab.start()

    def _mark(self) -> None:
        log = self.lab.folder / "job.log"
        self._seen = len(log.read_text()) if log.exists() else 0

    def _kill(self, victim: str) -> None:
        if victim == "driver":
            self.lab.kill("driver")
        elif victim == "executor":
            self.cluster.kill_executor()
        elif victim == EVERYBODY:
            for number in range(self.cluster.workers):
                self.cluster.kill(f"worker{number}")
        else:
            self.cluster.kill("worker0" if victim == "worker" else "master")

    def _restart(self, victim: str) -> None:
        if victim == "driver":
            self.lab.start()
        elif victim == "worker":
            self.cluster.start_worker(0)
        elif victim == EVERYBODY:
            lab = self.lab
            lab.until(
                lambda: "no executor for" in lab.job.log.read_text()[self._seen :],
                "saying that nobody is there",
                2 * WAIT,
            )
            for number in range(self.cluster.workers):
                self.cluster.start_worker(number)
        elif victim == "master":
            time.sleep(2)  # tasks go on without it
            self.cluster.start_master()


@contextmanager
def clustered(stack: Stack, folder: Path, name: str, **settings: Any) -> Iterator[Clustered]:
    """On servers of its own, which end with it."""
    store = s3.start(folder / "s3")
    cluster = Cluster(folder / "cluster", hidden=[store.home / "data"])
    try:
        cluster.start()
        failpoints = {
            f"spark.executorEnv.INGEST_FAILPOINT_{what}": str(folder / name / file)
            for what, file in (("FILE", "armed"), ("REACHED", "reached"))
        }
        spark = cluster.settings(conf=failpoints, driver_max=SMALL, trigger_seconds=0.2, **settings)
        lab = Lab(stack, folder / name, name=name, settings={"spark": spark}, store=store)
        try:
            yield Clustered(lab, cluster)
        finally:
            lab.close()
    finally:
        cluster.stop()
        store.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ledger", type=Path, default=Path("clustered.jsonl"))
    given = parser.parse_args()
    draw, failed = random.Random(given.seed), 0
    with tempfile.TemporaryDirectory(prefix="ingest-clustered-") as folder:
        stack = Stack.at(Path(folder) / "stack")
        stack.up({}, print)
        try:
            with clustered(stack, Path(folder), "clustered") as here:
                here.lab.prepare()
                here.lab.start()
                here.lab.until_equal(PATIENCE)
                victims = [VICTIMS[number % len(VICTIMS)] for number in range(given.rounds)]
                for number, victim in enumerate([*victims, EVERYBODY]):
                    place = draw.choice(PLACES)
                    said = _round(here, victim, place, ddl=number % 3 == 2)
                    failed += said["outcome"] != "equal"
                    with given.ledger.open("a") as file:
                        file.write(json.dumps({"round": number, **said}) + "\n")
                    print(json.dumps(said), flush=True)
                    if said["outcome"] != "equal":
                        break
        finally:
            stack.down()
    if failed:
        raise SystemExit(1)


def _round(here: Clustered, victim: str, place: str, *, ddl: bool) -> dict[str, Any]:
    started, why = time.monotonic(), ""
    try:
        here.round(victim, place, ddl=ddl)
    except Exception as failure:
        why = f"{type(failure).__name__}: {failure}"[:600]
    return {
        "victim": victim,
        "place": place,
        "ddl": ddl,
        "outcome": "failed" if why else "equal",
        "why": why,
        "begun_anew": here.begun_anew,
        "seconds": round(time.monotonic() - started, 1),
    }


if __name__ == "__main__":
    main()
