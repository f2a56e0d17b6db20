"""The embedded MySQL: a real ``mysqld`` with row binlog, GTIDs, full row image and metadata."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pymysql
from pymysql.cursors import Cursor

from ingest.local import mysqld, process
from ingest.model.errors import Exit, IngestError

ADMIN = "root"
PIPELINE = "ingest"
"""The user that pipelines should use: only the grants of ``sql/source/grants.sql``."""

_CONFIG = """\
[mysqld]
basedir={basedir}
datadir={home}/mysql/data
{lc_messages}socket={socket}
pid-file={home}/mysql/mysqld.pid
log-error={home}/logs/mysql.log
bind-address=127.0.0.1
port={port}
mysqlx=OFF
skip-name-resolve
local_infile=OFF
secure_file_priv=NULL
# What Debezium needs, and what makes a change complete and unambiguous:
server-id=1
log-bin=binlog
binlog_format=ROW
binlog_row_image=FULL
binlog_row_metadata=FULL
gtid_mode=ON
enforce_gtid_consistency=ON
binlog_expire_logs_seconds=604800
# Small, since this server shares a laptop with Kafka, Connect and Spark:
innodb_buffer_pool_size=128M
innodb_log_buffer_size=8M
performance_schema_max_table_instances=400
table_definition_cache=800
max_connections=80
max_allowed_packet=64M
default_time_zone=+00:00
character_set_server=utf8mb4
"""


@dataclass(frozen=True)
class MySql:
    """One embedded server, in ``<home>/mysql``."""

    home: Path
    port: int

    def secret(self, user: str) -> Path:
        """The file (mode 0600) that holds a user's generated password."""
        return self.home / "secrets" / f"mysql_{user}"

    def start(self) -> process.Child:
        """Initialise on first use, then start; the passwords are set before anybody can connect."""
        server = mysqld.chosen(self.home)
        config = self.home / "mysql" / "my.cnf"
        config.parent.mkdir(parents=True, exist_ok=True)
        messages = f"lc-messages-dir={server.messages}\n" if server.messages else ""
        config.write_text(
            _CONFIG.format(
                basedir=server.home,
                home=self.home,
                port=self.port,
                socket=_socket(self.home),
                lc_messages=messages,
            ),
            encoding="utf-8",
        )
        as_root = ["--user=root"] if os.geteuid() == 0 else []
        base = [str(server.binary), f"--defaults-file={config}", *as_root]
        if not (self.home / "mysql" / "data" / "mysql.ibd").exists():
            self._initialise(base, server.environment)
            mysqld.has_made_data(self.home, server)
        init_file = self._accounts()
        command = [*base, f"--init-file={init_file}"]
        return process.start("mysql", command, home=self.home, env=server.environment)

    def _initialise(self, base: list[str], env: dict[str, str]) -> None:
        """Make the data folder. It is made beside its place and gets its name last: mysqld writes ``mysql.ibd`` among the
        first of its files, so a folder that a killed run has left half-made would be taken for whole.
        """
        data = self.home / "mysql" / "data"
        made = data.with_name("data.part")
        for left in (made, data):
            shutil.rmtree(left, ignore_errors=True)
        log = self.home / "logs" / "mysql.log"
        done = subprocess.run(
            [*base, f"--datadir={made}", "--initialize-insecure"],
            # With the stack's mark: where this command is killed, the next one ends what goes on here.
            env={**os.environ, **env, process.HOME_VARIABLE: str(self.home)},
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            raise IngestError(
                "E-LOCAL-MYSQL",
                f"MySQL could not create its data folder: {_last_error(log, done.stderr)}",
                remedy=f"read {log}; `ingest local reset` starts over.",
                exit_code=Exit.FAILED,
            )
        made.replace(data)

    def _accounts(self) -> Path:
        """SQL that mysqld runs before it listens: two accounts with generated passwords."""
        script = self.home / "secrets" / "mysql_accounts.sql"
        statements = []
        for user in (ADMIN, PIPELINE):
            secret = self.secret(user)
            if not secret.exists():
                write_secret(secret, secrets.token_urlsafe(24))
            password = secret.read_text(encoding="utf-8")
            account = f"'{user}'@'127.0.0.1'"
            statements += [
                f"CREATE USER IF NOT EXISTS {account} IDENTIFIED BY '{password}';",
                f"ALTER USER {account} IDENTIFIED BY '{password}';",
            ]
        # sql/source/grants.sql explains each of these.
        read = "SELECT, RELOAD, SHOW DATABASES, LOCK TABLES, REPLICATION SLAVE, REPLICATION CLIENT"
        statements += [
            f"GRANT ALL ON *.* TO '{ADMIN}'@'127.0.0.1' WITH GRANT OPTION;",
            f"ALTER USER '{ADMIN}'@'localhost' ACCOUNT LOCK;",
            f"GRANT {read} ON *.* TO '{PIPELINE}'@'127.0.0.1';",
        ]
        # The accounts must not be in the binlog: they are this server's, not the user's data.
        write_secret(script, "\n".join(["SET sql_log_bin=0;", *statements, ""]))
        return script

    def admin(self, read_timeout: float | None = None) -> pymysql.connections.Connection[Cursor]:
        """A connection of the administrator's, in UTC, with autocommit. ``read_timeout``: seconds to wait for an answer."""
        return pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user=ADMIN,
            password=self.secret(ADMIN).read_text(encoding="utf-8"),
            connect_timeout=3,
            read_timeout=read_timeout,
            charset="utf8mb4",
            autocommit=True,
            init_command="SET time_zone = '+00:00'",
        )

    def healthy(self) -> str | None:
        """None when the server answers, else why not."""
        try:
            # One that stands still accepts, and says nothing.
            connection = self.admin(read_timeout=3)
        except (pymysql.MySQLError, OSError) as failure:
            return str(failure.args[-1] if failure.args else failure)
        connection.close()
        return None


def write_secret(path: Path, text: str) -> None:
    """Write a file that only its owner can read, from its first byte on."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)


def _socket(home: Path) -> Path:
    # A socket path may have 107 bytes; a home folder deep in a tree passes that.
    path = home / "mysql" / "mysqld.sock"
    if len(str(path).encode()) < 100:
        return path
    import hashlib
    import tempfile

    digest = hashlib.sha256(str(home).encode()).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"ingest-mysql-{digest}.sock"


def _last_error(log: Path, said: str) -> str:
    text = (log.read_text(encoding="utf-8", errors="replace") if log.exists() else "") + said
    errors = [line for line in text.splitlines() if "[ERROR]" in line or "error while" in line]
    return errors[-1].split("] ")[-1] if errors else "no reason was logged."
