"""docker-compose.yml really run: started, filled, killed, audited, from a copy of what git holds and the page that explains it.

    python -m tests.compose [--images public|stand-ins] [--keep]

Needs a Docker engine and `docker compose`. With stand-ins, for machines that reach no public registry, root and debootstrap, too.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pymysql

from tests.compose import stand_ins

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "operations.md"
PROJECT = "ingest-compose-test"
FILE = "/pipeline/pipeline.yaml"


class Story:
    """One run, in a folder that is a fresh copy of the project."""

    def __init__(self, folder: Path, images: str) -> None:
        self.folder = folder
        self.words = ["docker", "compose", "-p", PROJECT, "-f", "docker-compose.yml"]
        if images == "stand-ins":
            (folder / "stand-ins.json").write_text(json.dumps(stand_ins.override()))
            self.words += ["-f", "stand-ins.json"]
        self.began = time.monotonic()

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self.began:6.0f} s  {text}", flush=True)

    def compose(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*self.words, *words], cwd=self.folder, capture_output=True, text=True, check=False
        )
        if check and done.returncode != 0:
            raise SystemExit(
                f"docker compose {' '.join(words)} ended with {done.returncode}\n"
                f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}\n{self.logs()}"
            )
        return done

    def logs(self) -> str:
        return self.compose("logs", "--tail", "15", check=False).stdout[-6000:]

    def as_the_page_says(self) -> None:
        """The two passwords and the pipeline file, by the page's own words."""
        part = PAGE.read_text(encoding="utf-8").split("## docker-compose", 1)[1]
        shell = re.search(r"```sh\n(.*?)```", part, re.DOTALL)
        pipeline = re.search(r"```yaml\n(.*?)```", part, re.DOTALL)
        assert shell is not None
        assert pipeline is not None
        passwords = [line for line in shell[1].splitlines() if "secrets" in line]
        assert len(passwords) == 3
        subprocess.run(["sh", "-ec", "\n".join(passwords)], cwd=self.folder, check=True)
        (self.folder / "pipeline.yaml").write_text(pipeline[1], encoding="utf-8")

    def sql(self, *statements: str) -> None:
        password = (self.folder / "secrets" / "mysql_root").read_text()
        with pymysql.connect(
            host="127.0.0.1", user="root", password=password, autocommit=True
        ) as one, one.cursor() as cursor:  # fmt: skip
            for statement in statements:
                cursor.execute(statement)

    def account(self) -> None:
        """The pipeline's user, by the file that says what it needs."""
        password = (self.folder / "secrets" / "mysql_ingest").read_text()
        text = (ROOT / "sql" / "source" / "grants.sql").read_text(encoding="utf-8")
        text = re.sub(r"^--.*$", "", text, flags=re.MULTILINE)
        text = text.replace("RANDOM PASSWORD", f"'{password}'")
        self.sql(*(one for one in text.split(";") if one.strip()))

    def audit(self, what: str) -> None:
        """Waits until the lake has come so far, then asks for the proof."""
        for _ in range(40):
            done = self.compose("exec", "-T", "spark", "ingest", "audit", FILE, check=False)
            if done.returncode == 0:
                equal = [line for line in done.stdout.splitlines() if "EQUAL" in line]
                self.say(f"{what}: {equal[0]}")
                return
            if done.returncode == 1:
                raise SystemExit(f"{what}: lake and source differ\n{done.stdout}")
            time.sleep(3)
        raise SystemExit(f"{what}: no audit\n{done.stdout}{done.stderr}\n{self.logs()}")

    def tell(self) -> None:
        self.as_the_page_says()
        self.say("built: the job's image")
        self.compose("--profile", "job", "build", "spark")
        self.say("up: MySQL, Kafka, Connect")
        self.compose("up", "-d", "--wait", "mysql", "kafka", "connect")
        self.account()
        self.sql(
            "CREATE DATABASE shop",
            "CREATE TABLE shop.orders (id INT PRIMARY KEY AUTO_INCREMENT, note VARCHAR(80), at DATETIME(6) DEFAULT NOW(6))",
            "INSERT INTO shop.orders (note) VALUES ('one'), ('zwei – 二'), (NULL)",
        )
        self.say("run: the job")
        self.compose("--profile", "job", "up", "-d", "--wait", "spark")
        self.audit("snapshot")
        self.sql(
            "INSERT INTO shop.orders (note) SELECT a.note FROM shop.orders a, shop.orders b, shop.orders c",
            "ALTER TABLE shop.orders ADD COLUMN price DECIMAL(12,2) DEFAULT 9.90",
            "UPDATE shop.orders SET price = id, note = CONCAT(id, note) WHERE id % 3 = 0",
            "DELETE FROM shop.orders WHERE id % 5 = 0",
        )
        self.audit("changes and a DDL")
        for victim in ("spark", "connect", "kafka", "mysql"):
            self.compose("kill", "-s", "KILL", victim)
            if victim != "mysql":
                self.sql(f"INSERT INTO shop.orders (note) VALUES ('while {victim} is dead')")
            self.compose("--profile", "job", "up", "-d", "--wait")
            self.sql(f"UPDATE shop.orders SET note = 'behind {victim}' WHERE id % 2 = 0")
            self.audit(f"{victim} killed and started again")
        self.compose("--profile", "job", "down")
        self.compose("--profile", "job", "up", "-d", "--wait")
        self.sql("DELETE FROM shop.orders WHERE id < 4")
        self.audit("everything down and up, on the volumes")
        said = self.compose("logs", "--no-color").stdout
        for name in ("mysql_root", "mysql_ingest"):
            assert (self.folder / "secrets" / name).read_text() not in said, name
        self.say("no password stands in any container's log")


def main() -> None:
    """The whole story; 0 where everything came out."""
    given = argparse.ArgumentParser(prog="python -m tests.compose", description=__doc__)
    given.add_argument("--images", choices=("public", "stand-ins"), default="public")
    given.add_argument("--keep", action="store_true", help="leave containers and volumes")
    said = given.parse_args()
    if (
        shutil.which("docker") is None
        or subprocess.run(
            ["docker", "compose", "version"], capture_output=True, check=False
        ).returncode
    ):
        sys.exit(
            "this needs Docker and `docker compose`, on Debian 13: apt install docker.io docker-compose"
        )
    if subprocess.run(["docker", "info"], capture_output=True, check=False).returncode:
        sys.exit("no Docker engine answers here: start dockerd")
    if said.images == "stand-ins":
        stand_ins.build()
    held = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    with tempfile.TemporaryDirectory(prefix="ingest-compose-") as name:
        for path in filter(None, held.stdout.decode().split("\0")):
            target = Path(name) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, target)
        story = Story(Path(name), said.images)
        try:
            story.tell()
        finally:
            if not said.keep:
                story.compose("--profile", "job", "down", "-v", check=False)


if __name__ == "__main__":
    main()
