"""A laboratory: the real stack, the job as a process, four tables, and hands that kill.

Everything is real: mysqld, the broker, the Connect worker and the job are processes that get SIGKILL,
and what the lake holds is compared with what MySQL says in SQL, not with what the job believes.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import psutil
import pymysql
import yaml
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from ingest.config import pipeline_file
from ingest.demo.job import Job
from ingest.job.first_pipeline_file import First, write
from ingest.kafka import broker
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.local import process
from ingest.local.mysql import PIPELINE
from ingest.local.stack import Stack
from ingest.model.errors import IngestError
from ingest.model.names import KEY_PROPERTY
from ingest.sample.values import exact
from ingest.source.connector import Connector, delivered
from ingest.source.mysql import connected, reached
from tests.kills import hostile
from tests.outside.log import Log, tables
from tests.support import lake, s3
from tests.support.change_log import folded, log_rows, place
from tests.support.cold import CONF
from tests.support.s3 import S3

TABLES = ("keyed", "bag", "emptied", "wide", "hostile", "copies")


def logs() -> bool:
    """Whether each table is to have a change log."""
    return bool(os.environ.get("INGEST_LOGS"))


class LabError(AssertionError):
    """A cell did not come out."""


@dataclass
class Lab:
    """One database, one pipeline, one job at a time."""

    stack: Stack
    folder: Path
    name: str = "kill"
    settings: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    java_options: str = ""
    job: Job | None = None
    round: int = 0
    tables: tuple[str, ...] = TABLES
    store: S3 | None = None
    """Where the lake is kept; None on this machine's disk."""

    # --- the world -----------------------------------------------------------------------------

    def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        for attempt in range(100):
            try:
                with closing(self.stack.mysql().admin()) as connection:
                    with connection.cursor() as cursor:
                        for statement in statements:
                            cursor.execute(statement)
                        return list(cursor.fetchall())
            except pymysql.OperationalError:
                if attempt == 99:
                    raise
                time.sleep(0.2)
        raise AssertionError

    def create(self, rows: int = 40) -> None:
        self.sql(
            f"DROP DATABASE IF EXISTS {self.name}",
            f"CREATE DATABASE {self.name}",
            f"CREATE TABLE {self.name}.keyed (id INT, part INT, v VARCHAR(200), PRIMARY KEY (part, id))",
            f"CREATE TABLE {self.name}.bag (a INT, b VARCHAR(200))",
            f"CREATE TABLE {self.name}.emptied (id INT PRIMARY KEY, v VARCHAR(20))",
            f"CREATE TABLE {self.name}.wide (id INT PRIMARY KEY, v VARCHAR(200))",
            *hostile.created(self.name),
            *hostile.filled(self.name, rows),
        )
        for table, make in (
            ("keyed", lambda n: f"({n}, {n % 3}, 'v{n}')"),
            ("bag", lambda n: f"({n % 7}, 'b{n % 5}')"),
            ("emptied", lambda n: f"({n}, 'e')"),
            ("wide", lambda n: f"({n}, 'w{n}')"),
        ):
            for start in range(0, rows, 1000):
                values = ", ".join(make(n) for n in range(start, min(rows, start + 1000)))
                self.sql(f"INSERT INTO {self.name}.{table} VALUES {values}")

    def prepare(self, rows: int = 40) -> None:
        """Tables and a pipeline file; the job can start, and nothing is armed."""
        self.create(rows)
        self.write_pipeline()
        self.disarm()

    def change(self, *, ddl: bool = False, truncate: bool = True) -> None:
        """A round of changes: inserts, updates, deletes, key changes, swaps, returns, copies."""
        self.round += 1
        n, name = self.round, self.name
        text, new, gone = (hostile.text(name, n, which, 20) for which in ("text", "new", "gone"))
        statements = [
            f"INSERT INTO {name}.keyed VALUES ({10_000 + n}, 1, {new})",
            f"UPDATE {name}.keyed SET v = CONCAT(LEFT(v, 100), '+', {text}) WHERE id % 5 = {n % 5} AND id < 40",
            "START TRANSACTION",
            f"UPDATE {name}.keyed SET id = {20_000 + n} WHERE id = 3 AND part = 0",
            f"INSERT INTO {name}.keyed VALUES (3, 0, CONCAT({gone}, ' returned {n}'))",
            f"UPDATE {name}.keyed SET part = 9 WHERE id = 1 AND part = 1",
            f"UPDATE {name}.keyed SET id = 1, part = 1 WHERE id = 4 AND part = 1",
            f"UPDATE {name}.keyed SET id = 4, part = 1 WHERE id = 1 AND part = 9",
            "COMMIT",
            f"DELETE FROM {name}.keyed WHERE id = {10_000 + n - 2}",
            f"REPLACE INTO {name}.keyed VALUES (7, 1, 'replaced {n}')",
            f"INSERT INTO {name}.keyed VALUES (7, 1, 'x') ON DUPLICATE KEY UPDATE v = 'upserted {n}'",
            f"INSERT INTO {name}.bag VALUES (1, {text}), (1, {text}), (2, NULL)",
            f"DELETE FROM {name}.bag WHERE a = 1 AND b = {text} LIMIT 1",
            f"UPDATE {name}.bag SET b = CONCAT('y{n % 3}', {new}) WHERE a = 2 LIMIT 2",
            f"REPLACE INTO {name}.emptied VALUES (1, '{n}'), (2, {text})",
            *([f"TRUNCATE {name}.emptied"] if truncate else []),
            f"REPLACE INTO {name}.emptied VALUES (2, '{n}'), ({n % 7 + 3}, {new})",
            f"UPDATE {name}.wide SET v = CONCAT('{n}-', {gone}, LEFT(v, 50)) WHERE id % 4 = {n % 4}",
            *hostile.changed(name, n),
        ]
        if ddl:
            statements += [
                f"ALTER TABLE {name}.wide ADD COLUMN c{n} INT NOT NULL DEFAULT {n}",
                f"UPDATE {name}.wide SET c{n} = 0 WHERE id % 3 = 0",
                f"INSERT INTO {name}.wide (id, v) VALUES ({30_000 + n}, 'after')",
            ]
        self.sql(*statements)

    def touch(self) -> None:
        """One more change, so that something is unapplied."""
        self.round += 1
        self.sql(f"INSERT INTO {self.name}.keyed VALUES ({50_000 + self.round}, 2, 'more')")

    # --- the pipeline --------------------------------------------------------------------------

    @property
    def file(self) -> Path:
        return self.folder / f"{self.name}.yaml"

    @property
    def lake(self) -> Path:
        """Its files: in an object store, too, they are looked at past its server."""
        return self.store.bucket / self.name if self.store else self.folder / "lake"

    def write_pipeline(self, tables: str | None = None) -> None:
        mysql = self.stack.mysql()
        self.folder.mkdir(parents=True, exist_ok=True)
        write(
            First(
                f"mysql://{PIPELINE}@127.0.0.1:{mysql.port}",
                mysql.secret(PIPELINE),
                (tables or f"{self.name}.*",),
                self.name,
                self.stack.kafka().bootstrap_servers,
                self.stack.connect().url,
                str(self.lake),
            ),
            self.file,
            self.folder,
            force=True,
        )
        content = yaml.safe_load(self.file.read_text())
        conf = {**CONF}
        conf["spark.driver.defaultJavaOptions"] += f" {self.java_options}"
        spark: dict[str, Any] = {"driver_memory": "1g", "trigger_seconds": 0.2, "conf": conf}
        if engine := os.environ.get("INGEST_MERGE_ENGINE"):
            spark["merge_engine"] = engine
        if lane := os.environ.get("INGEST_LANE"):
            spark["lane"] = lane
        if logs():
            content["defaults"] = {"targets": ["mirror", "change_log"]}
        if self.store:
            kept = {"path": f"s3a://{s3.BUCKET}/{self.name}", "storage": self.store.storage()}
            content["lake"] = {**content.get("lake", {}), **kept}
        for section, values in {"spark": spark, **self.settings}.items():
            content[section] = {**content.get(section, {}), **values}
        self.file.write_text(yaml.safe_dump(content))

    def pipeline(self) -> pipeline_file.Pipeline:
        return pipeline_file.load(self.file)

    def entry(self) -> Any:
        return Ledger(str(self.lake)).last()

    # --- the job -------------------------------------------------------------------------------

    @property
    def armed(self) -> Path:
        return self.folder / "armed"

    @property
    def marker(self) -> Path:
        return self.folder / "reached"

    @property
    def env(self) -> dict[str, str]:
        """What a command on this laboratory's pipeline needs in its environment."""
        return {
            **self.environment,
            "INGEST_FAILPOINT_FILE": str(self.armed),
            "INGEST_FAILPOINT_REACHED": str(self.marker),
            "INGEST_HOME": str(self.stack.home),
        }

    def start(self, *words: str) -> Job:
        self.job = Job.start(self.file, self.folder / "job.log", words=words, env=self.env)
        return self.job

    def begin(self, tables: str | None = None) -> Job:
        """The job of a new pipeline file, with nothing armed. ``tables``: all of the lab's database, when not given."""
        self.write_pipeline(tables)
        self.disarm()
        return self.start()

    def arm(self, failpoint: str) -> None:
        self.marker.unlink(missing_ok=True)
        self.armed.write_text(f"{failpoint}:hold")

    def disarm(self) -> None:
        self.armed.write_text("")

    def until(
        self, fact: Callable[[], bool], what: str, seconds: float = 120, every: float = 0.1
    ) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.job is not None:
                self.job.refuse_dead()
            if fact():
                return
            time.sleep(every)
        raise LabError(f"{what}: not within {seconds:.0f} s")

    def until_reached(self, seconds: float = 300) -> str:
        self.until(self.marker.exists, f"reaching {self.armed.read_text()}", seconds)
        return self.marker.read_text().strip()

    # --- killing -------------------------------------------------------------------------------

    def kill(self, victim: str) -> int:
        """SIGKILL for real; returns the exit status that the system reports (-9)."""
        if victim == "driver":
            assert self.job is not None
            status = self.job.kill()
            self.job = None
            return status
        if victim == "worker":
            return self._kill_worker()
        child = (
            self.store.child if victim == "store" and self.store else self.stack.children[victim]
        )
        running = child.process()
        assert running is not None, victim
        os.kill(running.pid, signal.SIGKILL)
        for _ in range(100):
            status_or_none = process.returncode(child)
            if status_or_none is not None:
                return status_or_none
            time.sleep(0.05)
        raise LabError(f"{victim} did not die")

    def _kill_worker(self) -> int:
        """The Python process of Spark's task that has reached the place. Spark begins another one by itself."""
        worker = psutil.Process(int(self.marker.read_text().rpartition("pid=")[2]))
        worker.kill()
        self.disarm()
        # A child of Spark's daemon, which alone learns how it ended.
        self.until(lambda: not worker.is_running(), "the worker's end", 10)
        return -signal.SIGKILL

    def restart(self, victim: str) -> None:
        if victim == "driver":
            self.start()
        elif victim == "store" and self.store:
            self.store.begin_again()
        elif victim != "worker":
            self.stack.up({})

    # --- the oracle ----------------------------------------------------------------------------

    def unapplied(self) -> int:
        """MySQL transactions that the lake is not known to hold."""
        with connected(self.pipeline().source) as cursor:
            target = reached(cursor)
        entry = self.entry()
        applied = [m.gtid for m in entry.high_water.values() if m.gtid] if entry else []
        newest = max((int(gtid.rpartition(":")[2]) for gtid in applied), default=0)
        return target.gtids.count() - newest

    def differences(self) -> dict[str, Any]:
        """Table to rows that only one side has, by value; empty when equal."""
        found = {}
        for table in self.tables:
            ours, theirs = self.source_rows(table), self.lake_rows(table)
            if ours != theirs:
                found[table] = {
                    "missing": str(list((ours - theirs).items())[:5])[:600],
                    "extra": str(list((theirs - ours).items())[:5])[:600],
                }
        return found

    def untrue(self) -> dict[str, str]:
        """Table to what its log says and its files do not, to a reader that knows the protocol alone."""
        found = {one.name: Log.read(one).falsehoods() for one in tables(self.lake / self.name)}
        return {table: f"a false log: {some[:5]}" for table, some in found.items() if some}

    def refuse_untrue(self) -> None:
        """Raises ``LabError`` where a log is false."""
        if found := self.untrue():
            raise LabError(str(found))

    def refuse_other_logs(self) -> None:
        """Raises ``LabError`` where a change log is not its table, folded, or has a change of the stream twice."""
        for table in self.tables if logs() else ():
            mirror = DeltaTable(self.lake / self.name / table).metadata().configuration
            key = tuple(json.loads(mirror[KEY_PROPERTY]))
            rows = log_rows(self.lake / self.name / f"{table}__changes")
            wanted, found = self.source_rows(table), folded(rows, key, as_row)
            if table == "wide":  # what a DDL made of rows that stood there is in no change
                wanted, found = (_only(("id", "v"), one) for one in (wanted, found))
            if wanted != found:
                lost, more = list((wanted - found).items()), list((found - wanted).items())
                raise LabError(f"the log of {table} lacks {lost[:3]} and has {more[:3]}")
            streamed = [(*place(r), r["operation"]) for r in rows if r["origin"] == "stream"]
            twice = [one for one, many in Counter(streamed).items() if many > 1]
            if twice:
                raise LabError(f"the log of {table} has twice {twice[:5]}")

    def source_rows(self, table: str) -> Counter[Any]:
        with closing(self.stack.mysql().admin()) as connection:
            with connection.cursor(pymysql.cursors.DictCursor) as cursor:
                cursor.execute(f"SELECT * FROM {self.name}.{table}")
                return Counter(as_row(row) for row in cursor.fetchall())

    def lake_rows(self, table: str) -> Counter[Any]:
        try:
            found = lake.read(self.lake / self.name / table)
        except TableNotFoundError:
            return Counter()
        rows = found.drop_columns(["_ingest"]).to_pylist()
        return Counter(as_row(row) for row in rows)

    def until_equal(self, seconds: float = 180) -> None:
        """Nobody writes; so the lake has to become equal, and everything has to be published."""
        try:
            self.until(self._settled, "becoming equal", seconds, every=1.0)
        except (LabError, IngestError) as failure:
            raise LabError(f"{failure} {self.differences()}") from None

    def _settled(self) -> bool:
        try:
            entry = self.entry()
            if entry and any(gap.is_open for gap in entry.gaps):
                return False  # only a table that was taken again is certain
            return self._published() and not self.differences()
        except (IngestError, pymysql.MySQLError):
            return False

    def _published(self) -> bool:
        pipeline = self.pipeline()
        with connected(pipeline.source) as cursor:
            target = reached(cursor)
        if not delivered(Connector(pipeline).offset(), target):
            return False
        entry = self.entry()
        ends = broker.end_offsets(pipeline, broker.data_topics(pipeline))
        return entry is not None and all(
            entry.ends.get(place, 0) >= end for place, end in ends.items()
        )

    def close(self) -> None:
        if self.job is not None:
            self.job.kill()
            self.job = None


def _only(names: tuple[str, ...], rows: Counter[Any]) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for row, many in rows.items():
        found[tuple(one for one in row if one[0] in names)] += many
    return found


def as_row(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(sorted((name, _plain(value)) for name, value in row.items()))


def _plain(value: Any) -> Any:
    if (
        isinstance(value, datetime) and value.tzinfo is not None
    ):  # an instant; MySQL's is read in UTC
        value = value.astimezone(timezone.utc).replace(tzinfo=None)
    if isinstance(value, float):
        return exact(value)  # the zero below zero is another
    if isinstance(value, Decimal):
        # The client has a number for a BIGINT UNSIGNED; the lake has a text for a DECIMAL of 65 digits.
        return exact(value) if value.as_tuple().exponent else int(value)
    return str(value) if isinstance(value, datetime) else value
