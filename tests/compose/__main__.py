"""docker-compose.yml really run: started, filled, killed, audited, from a copy of what git holds and the page that explains it.

    python -m tests.compose [--images public|stand-ins] [--keep]

Needs a Docker engine and `docker compose`. With stand-ins, for machines that reach no public registry, root and debootstrap, too.
"""

from __future__ import annotations

import argparse
import json
import os
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
WAIT = ("--wait", "--wait-timeout", "300")


class Story:
    """One run, in a folder that is a fresh copy of the project."""

    def __init__(self, folder: Path, images: str) -> None:
        self.folder = folder
        self.page = PAGE.read_text(encoding="utf-8").split("## docker-compose", 1)[1]
        self.page = self.page.split("\n## ", 1)[0]
        files = ["docker-compose.yml"]
        if images == "stand-ins":
            (folder / "stand-ins.json").write_text(json.dumps(stand_ins.override()))
            files += ["stand-ins.json"]
        # Compose's own names for `-p` and `-f`, so that the page's commands run as they stand.
        self.environment = {
            **os.environ,
            "COMPOSE_PROJECT_NAME": PROJECT,
            "COMPOSE_FILE": ":".join(files),
        }
        self.began = time.monotonic()

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self.began:6.0f} s  {text}", flush=True)

    def compose(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.ran(["docker", "compose", *words], f"docker compose {' '.join(words)}", check)

    def ran(
        self, words: list[str], what: str, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            words,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=1200,
            check=False,
        )
        if check and done.returncode != 0:
            raise SystemExit(
                f"{what} ended with {done.returncode}\n"
                f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}\n{self.logs()}"
            )
        return done

    def logs(self) -> str:
        return self.compose("logs", "--tail", "15", check=False).stdout[-6000:]

    def as_the_page_says(self, number: int) -> str:
        """One of its blocks, word by word, where files are made for their owner alone."""
        block = re.findall(r"```sh\n(.*?)```", self.page, re.DOTALL)[number]
        words = ["sh", "-ec", f"umask 077\n{block}"]
        return self.ran(words, f"block {number + 1} of the page").stdout

    def sql(self, *statements: str) -> None:
        password = (self.folder / "secrets" / "mysql_root").read_text()
        with pymysql.connect(
            host="127.0.0.1", user="root", password=password, autocommit=True
        ) as one, one.cursor() as cursor:  # fmt: skip
            for statement in statements:
                cursor.execute(statement)

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
        self.as_the_page_says(0)
        self.say("up: MySQL, Kafka, Connect")
        self.as_the_page_says(1)
        (yaml,) = re.findall(r"```yaml\n(.*?)```", self.page, re.DOTALL)
        (self.folder / "pipeline.yaml").write_text(yaml, encoding="utf-8")
        (self.folder / "pipeline.yaml").chmod(0o644)
        self.sql("INSERT INTO shop.orders (note) VALUES ('one'), ('zwei – 二'), (NULL)")
        said = self.as_the_page_says(2)
        assert "EQUAL" in said, said
        self.say("the job is built, runs, and is equal")
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
            self.compose("--profile", "job", "up", "-d", *WAIT)
            self.sql(f"UPDATE shop.orders SET note = 'behind {victim}' WHERE id % 2 = 0")
            self.audit(f"{victim} killed and started again")
        self.compose("--profile", "job", "down")
        self.compose("--profile", "job", "up", "-d", *WAIT)
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
