"""A lake that an earlier commit of ours fills through the real stack, kept as test data or taken over by today's code.

``python -m tests.upgrades.lake --commit b51fb81 --pack tests/data/lake_b51fb81.tar.gz`` makes the test data anew;
``python -m tests.upgrades.lake --commit b51fb81 --go-on`` lets today's code go on where the earlier one has stopped, with the
same MySQL and Kafka, and compares. Takes some minutes.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from ingest.local import tar
from ingest.local.stack import Stack
from tests.support.cold import CONF
from tests.support.server import Server

ROOT = Path(__file__).parents[2]

TABLES = {
    "exact": "id BIGINT UNSIGNED PRIMARY KEY, amount DECIMAL(38,10), price DECIMAL(20,4), "
    "name VARCHAR(40) COLLATE utf8mb4_bin, body LONGTEXT, at DATETIME(6), seen TIMESTAMP(6) NULL",
    "moments": "n INT, at DATETIME(6), seen TIMESTAMP(6) NULL",
    "ratios": "n INT, single FLOAT, ratio DOUBLE",
    "days": "n INT, at DATETIME, note VARCHAR(20)",
    "notes": "n INT, note VARCHAR(20)",
    "labels": "id INT PRIMARY KEY, kind ENUM('a','3D') CHARACTER SET binary, tags SET('p','q') CHARACTER SET binary",
}
"""The first and the last have a key."""

AT_FIRST = (
    (
        "INSERT INTO exact VALUES (1, 1.5, 2.5, 'a', 'short', '2026-01-01 00:00:00.000001', '2026-01-01 00:00:00.000001'), "
        "(9007199254740993, 900719925474099300.1000000001, 9007199254740993.0001, '𠮷野家', REPEAT('zlong ', 4000), "
        "'2026-01-01 00:00:00.123456', '2026-01-01 00:00:00.123456')"
    ),
    (
        "INSERT INTO moments VALUES (1, '2026-01-01 00:00:00.123456', '2026-01-01 00:00:00.5'), "
        "(1, '2026-01-01 00:00:00.123789', '2026-01-01 00:00:00.5'), (2, '2026-01-01 00:00:00.999999', NULL), "
        "(2, NULL, NULL), (2, NULL, NULL), (3, '2026-01-01 00:00:00.5', '2026-01-01 00:00:00.000001')"
    ),
    "INSERT INTO ratios VALUES (1, 0.5, 2e23), (1, 0.5, 2e-3), (2, NULL, -0e0), (2, NULL, 0e0)",
    "INSERT INTO days VALUES (1, '2026-01-01', 'x'), (1, '2026-01-01', 'x'), (2, NULL, NULL)",
    "INSERT INTO notes VALUES (1, NULL), (1, ''), (1, 'null'), (1, 'null')",
    # A snapshot by b51fb81 brings NULL.
    "INSERT INTO labels VALUES (1, 'a', 'p,q'), (2, '3D', ''), (3, NULL, NULL)",
)

ROUNDS = 26
"""Beyond 20 commits of a table, so that there is a checkpoint. A lake that is refused needs none."""


def of_round(number: int) -> list[str]:
    """Each a transaction; together one batch or two."""
    micros = f"2026-01-02 00:00:{number:02d}.{number:03d}"
    return [
        (
            f"INSERT INTO exact VALUES ({18446744073709551615 - number}, 1234567890123456789012345678.{number:010d}, "
            f"-{9007199254740993 + number}.0001, CONCAT(_utf8mb4 0xF0A08080, {number}), 'b', '{micros}123', '{micros}456')"
        ),
        f"INSERT INTO moments VALUES ({number % 5}, '{micros}123', NULL), ({number % 5}, '{micros}456', NULL)",
        f"INSERT INTO ratios VALUES ({number}, {number}.1, {number}.1)",
        f"INSERT INTO days VALUES ({number}, '2026-01-02', '{number}')",
        f"INSERT INTO notes VALUES ({number}, '{number}')",
    ]


LAST = (
    # What b51fb81 does not see: the same milliseconds.
    "UPDATE moments SET at = '2026-01-01 00:00:00.999001' WHERE at = '2026-01-01 00:00:00.999999'",
    "UPDATE exact SET name = '𠀋' WHERE id = 1",
    "DELETE FROM notes WHERE note = 'null' LIMIT 1",
)

AFTERWARDS = (
    "DELETE FROM moments WHERE n = 1",
    "UPDATE moments SET n = 7 WHERE n = 2",
    "UPDATE ratios SET single = 0.25 WHERE n = 1",
    "DELETE FROM days WHERE n = 1 LIMIT 1",
    "DELETE FROM notes WHERE n = 1 AND note IS NULL",
    "UPDATE exact SET price = 0.0001 WHERE id > 1",
    "UPDATE labels SET tags = 'q' WHERE id = 3",
)


@dataclass
class Code:
    """`ingest` as a commit has it."""

    folder: Path
    stack: Stack
    work: Path

    def __call__(self, *words: str) -> str:
        done = subprocess.run(
            self._line(words),
            cwd=self.work,
            env=self._env(),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        print(done.stdout, flush=True)
        assert done.returncode == 0, words
        return done.stdout

    def started(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(self._line(words), cwd=self.work, env=self._env(), text=True)

    def _line(self, words: tuple[str, ...]) -> list[str]:
        return [sys.executable, "-m", "ingest", *words]

    def _env(self) -> dict[str, str]:
        env = {"INGEST_HOME": str(self.stack.home), "PYTHONPATH": str(self.folder)}
        return {**os.environ, **env, "NO_COLOR": "1", "COLUMNS": "200"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commit", default="b51fb81", help="whose code fills it")
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help="of changes, a batch or two each"
    )
    parser.add_argument("--pack", type=Path, help="where to put the lake")
    parser.add_argument("--go-on", action="store_true", help="let today's code go on, and compare")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ingest-upgrade-") as name:
        work = Path(name)
        code = work / "code"
        code.mkdir()
        held = subprocess.run(
            ["git", "archive", asked.commit], cwd=ROOT, capture_output=True, check=True
        )
        with tarfile.open(fileobj=io.BytesIO(held.stdout)) as archive:
            tar.unpack(archive, code)
        stack = Stack.at(work / "stack")
        try:
            stack.up({})
            server, earlier = Server(stack), Code(code, stack, work)
            _fill(server, earlier, asked.rounds)
            if asked.pack:
                _pack(server, work, asked.pack)
            if asked.go_on:
                _go_on(server, Code(ROOT, stack, work))
        finally:
            stack.down()


def _fill(server: Server, earlier: Code, rounds: int) -> None:
    server.database("old")
    for table, columns in TABLES.items():
        server.sql(f"CREATE TABLE old.{table} ({columns})")
    server.sql("USE old", "SET time_zone = '+00:00'", *AT_FIRST)
    mysql = server.stack.mysql()
    where = ("--mysql", f"mysql://ingest@127.0.0.1:{mysql.port}")
    secret = ("--password-file", str(mysql.secret("ingest")))
    earlier("init", *where, *secret, "--tables", "old.*", "-o", "old.yaml")
    with (earlier.work / "old.yaml").open("a") as text:
        text.write(f"\nspark:\n  driver_memory: 1g\n  conf: {json.dumps(CONF)}\n")
    earlier("run", "old.yaml", "--once")
    job = earlier.started("run", "old.yaml")
    try:
        log = _lake(earlier.work) / "old" / "notes" / "_delta_log"
        for number in range(rounds):
            before = len(list(log.glob("*.json")))
            server.sql("USE old", "SET time_zone = '+00:00'", *of_round(number))
            until = time.monotonic() + 120
            while len(list(log.glob("*.json"))) == before and time.monotonic() < until:
                assert job.poll() is None
                time.sleep(0.1)
    finally:
        job.send_signal(signal.SIGINT)
        job.wait(120)
    server.sql("USE old", "SET time_zone = '+00:00'", *LAST)
    earlier("run", "old.yaml", "--once")


def _lake(work: Path) -> Path:
    return next(work.glob("**/_ingest/manifest")).parents[1]


def _pack(server: Server, work: Path, file: Path) -> None:
    """The lake but for what a run makes anew, and what MySQL holds, each value as MySQL's text (bytes as hex)."""
    rows = {
        table: [
            [one.hex() if isinstance(one, bytes) else one and str(one) for one in row]
            for row in server.sql("SET time_zone = '+00:00'", f"SELECT * FROM old.{table}")
        ]
        for table in TABLES
    }
    oracle = json.dumps({"rows": rows}, ensure_ascii=False, indent=0).encode()
    with tarfile.open(file, "w:gz") as archive:
        for part in ("old", "_ingest/manifest", "_ingest/epochs"):
            if (_lake(work) / part).exists():
                archive.add(_lake(work) / part, f"lake/{part}")
        entry = tarfile.TarInfo("mysql.json")
        entry.size = len(oracle)
        archive.addfile(entry, io.BytesIO(oracle))
    print(f"{file}: {file.stat().st_size:,} bytes")


def _go_on(server: Server, today: Code) -> None:
    """The same MySQL and Kafka, with changes of rows that the earlier commit has written."""
    server.sql("USE old", "SET time_zone = '+00:00'", *AFTERWARDS)
    today("run", "old.yaml", "--once")
    today("run", "old.yaml", "--once")  # what was asked for again has come by now, or comes now
    today("audit", "old.yaml")


if __name__ == "__main__":
    main()
