"""Installs an application, fills it, exercises it and upgrades it, while the job runs; compares before and after.

The first half of its tables is there when the job starts, so it comes by the snapshot, and the other by the stream. The
job is killed in the middle of the upgrade. Traffic goes on through all of it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pymysql

from ingest.local.mysql import ADMIN
from ingest.local.stack import Stack
from ingest.observe.audit import Audit
from tests.applications import orm, packages
from tests.applications.applications import Application, Migrations, Script
from tests.applications.oracle import ApplicationLab
from tests.applications.traffic import Going, Traffic

DDL = [
    "create_table",
    "alter_table",
    "drop_table",
    "rename_table",
    "create_index",
    "drop_index",
    "truncate",
]
DRAIN = 400


@dataclass
class Outcome:
    """What was run, and what came of it."""

    application: str
    before: str
    after: str
    seed: int
    tables: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    ddl: dict[str, int] = field(default_factory=dict)
    changes: int = 0
    transactions: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    verdicts: list[str] = field(default_factory=list)
    killed: str = ""
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class Drive:
    application: Application
    stack: Stack
    folder: Path
    spark: Any
    seed: int
    rows: int = 6
    transactions: int = 60
    say: Callable[[str], None] = print

    def run(self) -> Outcome:
        """Raises ``LabError`` where the lake differs, ``Unavailable`` where a package cannot be had."""
        self._fetch()
        started = time.monotonic()
        one = self.application
        lab = self.lab = ApplicationLab(self.stack, self.folder, name=f"app_{one.name}")
        lab.settings["source"] = dict(one.source)
        self.outcome = Outcome(one.name, one.before, one.after, self.seed)
        self.traffic = Traffic(lab, self.seed, left_alone=one.left_alone)
        lab.sql(
            f"DROP DATABASE IF EXISTS {lab.name}",
            f"CREATE DATABASE {lab.name} CHARACTER SET {one.charset}",
        )
        self._session = self._connect()
        counted = self._counted()
        try:
            self._install()
            self.traffic.exercise(self.transactions)
            self._compare("before")
            self._upgrade()
            self.traffic.exercise(self.transactions)
            self._compare("after")
        finally:
            self._session.close()
            lab.close()
            self._forget_connectors()
        now = self._counted()
        self.outcome.ddl = {
            name: now[name] - counted[name] for name in DDL if now[name] > counted[name]
        }
        self.outcome.changes, self.outcome.transactions = (
            self.traffic.rows,
            self.traffic.transactions,
        )
        for code, count in self.traffic.refused.items():
            self.outcome.refused[f"traffic {code}"] = count
        self.outcome.seconds = round(time.monotonic() - started, 1)
        return self.outcome

    # --- the stages ----------------------------------------------------------------------------

    def _install(self) -> None:
        """Half of the tables, the job, and then the others."""
        acts = list(self._acts(self.application.install))
        half = (len(acts) + 1) // 2
        self._do(acts[:half])
        self.traffic.fill(self.rows)
        self.lab.look()
        there = frozenset(self.lab.found)
        self.lab.begin()
        self.lab.until(lambda: self.lab.entry() is not None, "a first batch", 300)
        self._do(acts[half:])
        self.lab.look()
        self.traffic.fill(self.rows, only=frozenset(self.lab.found) - there)
        self.say(f"installed: {len(there)} tables by the snapshot, {len(self.lab.found)} in all")

    def _upgrade(self) -> None:
        acts = list(self._acts(self.application.upgrade))
        with Going(self.traffic):
            for number, act in enumerate(acts):
                if number == len(acts) // 2:
                    self.lab.kill("driver")
                    self.outcome.killed = f"before act {number + 1} of {len(acts)}"
                    self.lab.start()
                self._do([act])
                time.sleep(0.05)
            self.lab.job.refuse_dead()
        self.say(f"upgraded by {len(acts)} acts; killed {self.outcome.killed}")

    def _compare(self, when: str) -> None:
        self.lab.look()
        began = time.monotonic()
        self.lab.until_equal(DRAIN)
        drained = time.monotonic() - began
        verdict = Audit(self.lab.pipeline(), self.spark, lambda _: None, wait=120).execute()
        rows = sum(sum(self.lab.source_rows(table).values()) for table in self.lab.tables)
        self.outcome.tables.append(len(self.lab.tables))
        self.outcome.rows.append(rows)
        self.outcome.verdicts.append(f"{when}: oracle equal, audit {verdict.outcome}")
        self.say(
            f"{when}: {len(self.lab.tables)} tables, {rows} rows, drained in {drained:.0f} s, audit {verdict.outcome}"
        )
        assert verdict.equal, verdict.as_json()

    # --- what is run at the source --------------------------------------------------------------

    def _fetch(self) -> None:
        for step in (*self.application.install, *self.application.upgrade):
            step.statements() if isinstance(step, Script) else packages.python_packages()

    def _acts(self, steps: tuple[Script | Migrations, ...]) -> Iterator[str | Migrations]:
        for step in steps:
            if isinstance(step, Script):
                yield from step.statements()
            else:
                yield step

    def _do(self, acts: list[str | Migrations]) -> None:
        """What MySQL refuses, since the rows are anybody's, is counted and left out."""
        for act in acts:
            if isinstance(act, Migrations):
                self._migrate(act)
                continue
            try:
                with self._session.cursor() as cursor:
                    cursor.execute(act)
                    cursor.fetchall()
            except pymysql.MySQLError as refused:
                name = f"{refused.args[0]}: {' '.join(act.split())[:100]}"
                self.outcome.refused[name] = self.outcome.refused.get(name, 0) + 1

    def _connect(self) -> pymysql.connections.Connection[Any]:
        session = self.stack.mysql().admin()
        with session.cursor() as cursor:
            cursor.execute(f"SET sql_mode = '{self.application.sql_mode}'")
            cursor.execute(f"USE {self.lab.name}")
        return session

    def _migrate(self, act: Migrations) -> None:
        mysql = self.stack.mysql()
        done = subprocess.run(
            [sys.executable, orm.__file__, act.site, str(act.upto)],
            capture_output=True,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": str(packages.python_packages()),
                "APPLICATION_PORT": str(mysql.port),
                "APPLICATION_DATABASE": self.lab.name,
                "APPLICATION_USER": ADMIN,
                "APPLICATION_PASSWORD": mysql.secret(ADMIN).read_text(encoding="utf-8"),
            },
        )
        assert done.returncode == 0, done.stderr[-3000:]
        self.say(f"migrations {act.upto} of {done.stdout.strip()}")

    def _counted(self) -> Counter[str]:
        found = self.lab.sql("SHOW GLOBAL STATUS LIKE 'Com_%'")
        return Counter({str(name)[4:]: int(value) for name, value in found})

    def _forget_connectors(self) -> None:
        url = f"{self.stack.connect().url}/connectors"
        for name in httpx.get(url, timeout=30).json():
            httpx.delete(f"{url}/{name}", timeout=30)
