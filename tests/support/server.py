"""Hands for tests: SQL on the stack's MySQL, and `ingest` as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql

from ingest.config import pipeline_file
from ingest.local.stack import Stack
from ingest.observe.audit import Audit
from tests.support.cold import CONF


@dataclass
class Server:
    stack: Stack

    def connect(self) -> pymysql.connections.Connection:
        return self.stack.mysql().admin()

    def sql(self, *statements: str) -> list[tuple]:
        """Run statements in one session; returns the rows of the last."""
        with closing(self.connect()) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())

    def database(self, name: str) -> None:
        quoted = "`" + name.replace("`", "``") + "`"
        self.sql(f"DROP DATABASE IF EXISTS {quoted}", f"CREATE DATABASE {quoted}")


@dataclass
class Cli:
    """Runs `python -m ingest` in a folder, against the embedded stack."""

    stack: Stack
    folder: Path
    spark: Any = None

    def __call__(self, *words: str, env: dict[str, str] | None = None, timeout: float = 600):
        return subprocess.run(
            [sys.executable, "-m", "ingest", *words],
            capture_output=True,
            text=True,
            cwd=self.folder,
            env={
                **os.environ,
                "INGEST_HOME": str(self.stack.home),
                "NO_COLOR": "1",
                "COLUMNS": "200",
                **(env or {}),
            },
            timeout=timeout,
        )

    def init(self, name: str, *tables: str) -> Path:
        mysql = self.stack.mysql()
        file = self.folder / f"{name}.yaml"
        done = self(
            "init",
            "--mysql",
            f"mysql://ingest@127.0.0.1:{mysql.port}",
            "--password-file",
            str(mysql.secret("ingest")),
            "--tables",
            *tables,
            "-o",
            str(file),
        )
        assert done.returncode == 0, done.stderr
        with file.open("a") as text:
            text.write(f"\nspark:\n  driver_memory: 1g\n  conf: {json.dumps(CONF)}\n")
        return file

    def once(self, file: Path, **env: str) -> subprocess.CompletedProcess[str]:
        return self("run", str(file), "--once", env=env)

    def until_mended(self, file: Path, seconds: float = 300) -> None:
        """Runs until no gap is open and no table is being taken again. A run that ends before the connector has read
        a table leaves that to the next one, so on a busy machine it takes a few.
        """
        deadline = time.monotonic() + seconds
        while True:
            done = self.once(file)
            assert done.returncode == 0, done.stderr
            report = json.loads(self("status", str(file), "--json").stdout)
            left = [gap for gap in report["gaps"] if gap["open"]]
            if not (left or report["resyncing"]):
                return
            assert time.monotonic() < deadline, (left, report["resyncing"])

    def is_taken_again(self, file: Path) -> bool:
        """Whether no table is being taken again any more."""
        return not json.loads(self("status", str(file), "--json").stdout)["resyncing"]

    def audit(self, file: Path) -> tuple[bool, dict[str, Any]]:
        """The audit itself, in the test run's own Spark (`ingest audit` would start another)."""
        verdict = Audit(pipeline_file.load(file), self.spark, lambda _: None, wait=60).execute()
        return verdict.equal, verdict.as_json()
