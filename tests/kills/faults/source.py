"""Faults of MySQL and of its log."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import httpx

from ingest.local import process
from ingest.local.mysql import ADMIN, PIPELINE, MySql, write_secret
from ingest.source.connector import Connector, desired
from tests.kills.faults.act import another, command, expect, fault, restart, said, stop, versions
from tests.kills.faults.moving_name import moving
from tests.kills.lab import Lab


@fault
def resync_keyed(lab: Lab) -> str:
    """Rows changed behind the binlog's back: only taking the table again can mend them."""
    lab.sql(
        "SET sql_log_bin = 0",
        f"DELETE FROM {lab.name}.keyed WHERE id = 10",
        f"UPDATE {lab.name}.keyed SET v = 'unlogged' WHERE id = 11",
        f"INSERT INTO {lab.name}.keyed VALUES (777, 0, 'unlogged')",
    )
    expect(lab.differences(), "the audit cannot see it")
    others = versions(lab)
    command(lab, "resync", str(lab.file), f"{lab.name}.keyed")
    lab.touch()
    lab.until_equal(240)
    expect(versions(lab)["emptied"] == others["emptied"], "another table was touched")
    return "equal"


@fault
def resync_without_a_key(lab: Lab) -> str:
    lab.sql("SET sql_log_bin = 0", f"INSERT INTO {lab.name}.bag VALUES (99, 'unlogged')")
    lab.sql("SET sql_log_bin = 0", f"DELETE FROM {lab.name}.bag WHERE a = 6")
    expect(lab.differences(), "the audit cannot see it")
    command(lab, "resync", str(lab.file), f"{lab.name}.bag")
    lab.until_equal(240)
    return "equal"


@fault
def dump_thread_killed(lab: Lab) -> str:
    """The task says RUNNING and delivers nothing."""
    rows = lab.sql(
        "SELECT ID FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'"
    )
    for (thread,) in rows:
        lab.sql(f"KILL {thread}")
    started = time.monotonic()
    lab.change()
    lab.until_equal()
    return f"equal after {time.monotonic() - started:.0f} s"


@fault
def mysql_restarted(lab: Lab) -> str:
    """SIGTERM to mysqld: the task fails at once and says so only by its task state."""
    child = lab.stack.children["mysql"].process()
    assert child is not None
    child.terminate()
    child.wait(60)
    lab.stack.up({})
    lab.change()
    lab.until_equal()
    return "equal"


_AGAIN = "the connector is delivering again"


@fault
def mysql_away_for_a_while(lab: Lab) -> str:
    """Nobody says that records come while MySQL is away or refuses the password; once they do, it is said once."""
    stop(lab)
    lab.change()  # so that it is in the middle of its work once all is equal
    restart(lab)  # a job that knows of no trouble before, which it might not have said to be over
    password = lab.stack.mysql().secret(PIPELINE).read_text()

    def change_to(other: str) -> None:
        user = f"'{PIPELINE}'@'127.0.0.1'"
        lab.sql("SET sql_log_bin = 0", f"ALTER USER {user} IDENTIFIED BY '{other}'")

    child = lab.stack.children["mysql"].process()
    assert child is not None
    for what, away, back in (
        ("cannot be reached", child.terminate, lambda: lab.stack.up({})),
        (
            "does not accept the password",
            lambda: change_to("another-1"),
            lambda: change_to(password),
        ),
    ):
        before = len(said(lab))
        away()
        time.sleep(40)
        told = said(lab)[before:]
        expect(what in told and _AGAIN not in told, told)
        back()
        lab.change()
        lab.until(lambda start=before: _AGAIN in said(lab)[start:], "saying so", 120)
        lab.until_equal(300)
        told = said(lab)[before:]
        expect(told.count(_AGAIN) == 1 and told.count(what) <= 5, told)
    return "equal after each; its end was said once"


@contextmanager
def _replica(lab: Lab, other: Lab) -> Iterator[MySql]:
    """Another server, which has all that the laboratory's has; its log is its own."""
    old, home = lab.stack.mysql(), other.folder / "replica"
    (home / "secrets").mkdir(parents=True)
    (home / "logs").mkdir()
    for user in (ADMIN, PIPELINE):
        write_secret(MySql(home, 0).secret(user), old.secret(user).read_text())
    new = MySql(home, process.free_port())
    child = new.start()
    try:
        other.until(lambda: new.healthy() is None, "starting the replica")
        _replicate(old, new)
        yield new
    finally:
        lab.stack.ports["mysql"] = old.port
        process.stop(child, grace=10)


def _take_over(lab: Lab, new: MySql, applied: str) -> None:
    """It is the server from here on, and somebody writes to it."""
    lab.stack.ports["mysql"] = new.port
    lab.sql(
        f"DO WAIT_FOR_EXECUTED_GTID_SET('{applied}', 60)",
        "STOP REPLICA",
        f"REPLACE INTO {lab.name}.keyed VALUES (1, 1, 'by the new server')",
        f"DELETE FROM {lab.name}.bag WHERE a = 2",
    )


def _leads_to(lab: Lab, before: int, now: int) -> None:
    text = lab.file.read_text()
    lab.file.write_text(text.replace(f"127.0.0.1:{before}", f"127.0.0.1:{now}"))


@fault
def failover(lab: Lab) -> str:
    """A real replica takes over, with a log of its own: a new epoch, nothing lost, nothing twice."""
    with another(lab, "failover") as other, _replica(lab, other) as new:
        old = lab.stack.mysql()
        other.change()
        stop(other)
        (applied,) = other.sql("SELECT @@gtid_executed")[0]
        _take_over(other, new, applied)
        _leads_to(other, old.port, new.port)
        other.start()
        other.until_equal(300)
        other.change()
        other.until_equal()
        expect("a new epoch of the log begins" in said(other), "no new epoch")
        return "equal in the new epoch"


@fault
def failover_behind_one_name(lab: Lab) -> str:
    """The connector follows the name by itself to a server whose files count lower: refused, and not taken for what was sent before."""
    with another(lab, "moved") as other, _replica(lab, other) as new:
        old = lab.stack.mysql()
        with moving(old.port) as name:
            stop(other)
            _leads_to(other, old.port, name.port)
            lab.sql(*["FLUSH BINARY LOGS"] * 20)
            restart(other)
            other.change()
            other.until_equal()
            assert other.job is not None
            (applied,) = other.sql("SELECT @@gtid_executed")[0]
            name.move(new.port)
            _take_over(other, new, applied)
            status = other.job.process.wait(180)
            expect(
                status == 4 and "E-SOURCE-REGRESSION" in said(other),
                f"{status}: {said(other)[-800:]}",
            )
            other.job = None
            command(other, "resync", str(other.file), "--all")
            other.start()
            other.until_equal(300)
            other.change()
            other.until_equal()
            return "refused; equal once all was taken again"


def _replicate(old: MySql, new: MySql) -> None:
    password = old.secret(ADMIN).read_text()
    with closing(new.admin()) as connection, connection.cursor() as cursor:
        cursor.execute("SET GLOBAL server_id = 2")
        cursor.execute(
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = %s, "
            "SOURCE_USER = %s, SOURCE_PASSWORD = %s, SOURCE_AUTO_POSITION = 1, "
            "GET_SOURCE_PUBLIC_KEY = 1",
            (old.port, ADMIN, password),
        )
        cursor.execute("START REPLICA")


@fault
def log_reset(lab: Lab) -> str:
    """RESET MASTER: refused with a remedy, and the remedy works: a new epoch, every table again."""
    stop(lab)
    lab.sql("RESET MASTER", f"DELETE FROM {lab.name}.keyed WHERE id = 12")
    lab.change()
    command(lab, "resync", str(lab.file), "--all")
    lab.start()
    lab.until_equal(300)
    lab.change()
    lab.until_equal()
    return "equal in the new epoch"


def _refused_until_taken_again(lab: Lab, word: str) -> None:
    done = command(lab, "run", str(lab.file), "--once", check=False)
    expect(done.returncode == 4 and word in done.stderr, done.stderr + done.stdout)
    command(lab, "resync", str(lab.file), "--all")
    lab.start()
    lab.until_equal(300)


@fault
def binlog_purged(lab: Lab) -> str:
    """The log that the connector needs is gone: said with a remedy, and the remedy works."""
    stop(lab)
    connector = Connector(lab.pipeline())
    connector.stop()
    lab.change()
    lab.sql(f"DELETE FROM {lab.name}.keyed WHERE id = 13", "FLUSH BINARY LOGS")
    newest = lab.sql("SHOW BINARY LOGS")[-1][0]
    lab.sql(f"PURGE BINARY LOGS TO '{newest}'")
    connector.resume()
    _refused_until_taken_again(lab, "resync")
    return "refused with a remedy, then equal"


@fault
def session_in_statement_format(lab: Lab) -> str:
    """Its changes are no row events and never arrive; the audit sees it, resync mends it."""
    lab.sql(
        "SET SESSION binlog_format = 'STATEMENT'",
        f"UPDATE {lab.name}.keyed SET v = 'by statement' WHERE id = 15",
    )
    lab.touch()
    lab.until(lambda: lab.differences().keys() == {"keyed"}, "all but that change arriving")
    done = command(lab, "audit", str(lab.file), check=False)
    expect(done.returncode == 1, f"{done.returncode}: {done.stdout[-800:]}{done.stderr[-800:]}")
    command(lab, "resync", str(lab.file), f"{lab.name}.keyed")
    lab.until_equal(240)
    return "the audit names it; equal after resync"


@fault
def session_with_minimal_rows(lab: Lab) -> str:
    """The connector's task cannot read its rows: it leaves that table out, the others go on, the next run takes it whole."""
    stop(lab)
    lab.sql(
        "SET SESSION binlog_row_image = 'MINIMAL'",
        f"UPDATE {lab.name}.keyed SET v = 'minimal' WHERE id = 16",
    )
    lab.change()
    done = command(lab, "run", str(lab.file), "--once", check=False)
    expect(done.returncode == 4 and "E-TABLE-STOPPED" in done.stderr, done.stderr + done.stdout)
    expect(f"{lab.name}.keyed" in done.stderr and "binlog_row_image" in done.stderr, done.stderr)
    expect(set(lab.differences()) == {"keyed"}, "the others did not go on")
    lab.start()
    lab.until_equal(300)
    return "left out by name, the others went on; then equal"


@fault
def statement_nobody_parses(lab: Lab) -> str:
    """A DDL that Debezium cannot parse: refused with the statement, and the remedy works."""
    stop(lab)
    lab.sql(
        "SET SESSION sql_mode = 'ANSI_QUOTES'",
        f'CREATE TABLE {lab.name}."not parsed" ("a b" INT PRIMARY KEY)',
    )
    lab.sql(f"UPDATE {lab.name}.keyed SET v = 'behind it' WHERE id = 16")
    _refused_until_taken_again(lab, "not parsed")
    lab.sql(f"DROP TABLE {lab.name}.`not parsed`")
    return "refused with the statement, then equal"


@fault
def rows_that_no_log_holds(lab: Lab) -> str:
    """Foreign-key cascades and a partition's TRUNCATE never reach the binlog as rows. Of the latter the statement tells,
    and its table is taken again by itself; cascades the audit names, a resync mends them, and the job goes on meanwhile.
    """
    name = lab.name
    lab.sql(
        f"CREATE TABLE {name}.parent (id INT PRIMARY KEY)",
        f"CREATE TABLE {name}.child (id INT PRIMARY KEY, parent INT, FOREIGN KEY (parent) REFERENCES "
        f"{name}.parent (id) ON DELETE CASCADE)",
        f"CREATE TABLE {name}.parted (id INT PRIMARY KEY, v INT) PARTITION BY RANGE (id) (PARTITION p0 "
        "VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)",
        f"INSERT INTO {name}.parent VALUES (1), (2)",
        f"INSERT INTO {name}.child VALUES (1, 1), (2, 1), (3, 2)",
        f"INSERT INTO {name}.parted VALUES (1, 1), (2, 2), (11, 3)",
    )
    tables, lab.tables = lab.tables, (*lab.tables, "parent", "child", "parted")
    lab.until_equal()
    lab.sql(
        f"DELETE FROM {name}.parent WHERE id = 1",
        f"ALTER TABLE {name}.parted TRUNCATE PARTITION p0",
    )
    lab.change()
    lab.until(lambda: set(lab.differences()) == {"child"}, "only what no log holds", 300)
    done = command(lab, "audit", str(lab.file), check=False)
    named = done.returncode == 1 and "child" in done.stdout
    expect(named, done.stdout + done.stderr)
    command(lab, "resync", str(lab.file), f"{name}.child")
    lab.change()
    lab.until_equal(300)
    lab.tables = tables
    return "a partition's table equal by itself; the audit names the cascade's; equal after resync"


@fault
def unusual_statements(lab: Lab) -> str:
    """Savepoints, XA, temporary tables, MyISAM, CREATE … LIKE and … SELECT, multi-table statements, a
    table that leaves the pattern and comes back, SELECT revoked for a while.
    """
    name, away = lab.name, f"{lab.name}_away"
    account = "'ingest'@'127.0.0.1'"
    lab.sql(
        f"CREATE DATABASE {away}",
        f"CREATE TABLE {name}.isam (id INT PRIMARY KEY, v INT) ENGINE = MyISAM",
        f"INSERT INTO {name}.isam VALUES (1, 1), (2, 2)",
        f"CREATE TABLE {name}.traveller (id INT PRIMARY KEY, v INT)",
        f"INSERT INTO {name}.traveller VALUES (1, 1), (2, 2)",
        "START TRANSACTION",
        f"INSERT INTO {name}.keyed VALUES (70001, 1, 'kept')",
        "SAVEPOINT here",
        f"INSERT INTO {name}.keyed VALUES (70002, 1, 'rolled back')",
        "ROLLBACK TO here",
        "COMMIT",
        f"XA START '{name}'",
        f"INSERT INTO {name}.keyed VALUES (70003, 1, 'by XA')",
        f"XA END '{name}'",
        f"XA PREPARE '{name}'",
        f"XA COMMIT '{name}'",
        f"CREATE TEMPORARY TABLE {name}.scratch (id INT PRIMARY KEY)",
        f"INSERT INTO {name}.scratch VALUES (70004)",
        f"INSERT INTO {name}.keyed SELECT id, 1, 'from scratch' FROM {name}.scratch",
        f"DROP TEMPORARY TABLE {name}.scratch",
        f"UPDATE {name}.isam SET v = v + 1 WHERE id < 3",
        f"CREATE TABLE {name}.chosen AS SELECT id, v FROM {name}.wide",
        f"CREATE TABLE {name}.alike LIKE {name}.wide",
        f"INSERT INTO {name}.alike SELECT id, v FROM {name}.wide WHERE id % 2",
        f"UPDATE {name}.alike a JOIN {name}.traveller t ON a.id = t.id SET a.v = 'joined', t.v = 9",
        f"DELETE {name}.alike FROM {name}.alike JOIN {name}.wide ON alike.id = wide.id WHERE wide.id > 20",
    )
    tables, lab.tables = lab.tables, (*lab.tables, "isam", "traveller", "chosen", "alike")
    lab.until_equal()
    lab.sql(
        f"RENAME TABLE {name}.traveller TO {away}.traveller",
        f"UPDATE {away}.traveller SET v = 7",
        f"INSERT INTO {away}.traveller VALUES (3, 3)",
        f"RENAME TABLE {away}.traveller TO {name}.traveller",
        f"INSERT INTO {name}.traveller VALUES (4, 4)",
        f"DROP DATABASE {away}",
    )
    lab.until_equal(300)
    lab.sql(f"REVOKE SELECT ON *.* FROM {account}")
    try:
        lab.change()
        lab.until(lambda: not lab.differences(), "becoming equal without SELECT", 180)
    finally:
        lab.sql(f"GRANT SELECT ON *.* TO {account}")
    lab.tables = tables
    return "equal, without SELECT too"


@fault
def second_replica(lab: Lab) -> str:
    """Another connector takes our server id: MySQL throws one of the two out. Ours comes back once; if
    it is thrown out again, that is said by name, and if the other one gives way, all goes on.
    """
    config = {**desired(lab.pipeline()), "topic.prefix": f"{lab.name}x", "snapshot.mode": "no_data"}
    config["schema.history.internal.kafka.topic"] = f"{lab.name}x.history"
    url = f"{lab.pipeline().connect.url}/connectors/{lab.name}x"
    job = lab.job
    assert job is not None
    httpx.put(f"{url}/config", json=config, timeout=30).raise_for_status()
    try:
        for _ in range(150):
            lab.touch()
            tasks = httpx.get(f"{url}/status", timeout=30).json().get("tasks") or [{}]
            gave_way = tasks[0].get("state") == "FAILED"
            refused = job.process.poll() is not None
            if refused or gave_way:
                break
            time.sleep(1)
        expect(refused or gave_way, "both go on")
        if refused:
            expect(job.process.poll() == 4 and "replica" in said(lab)[-2000:], said(lab)[-2000:])
    finally:
        httpx.delete(url, timeout=30)
    lab.change()
    if not refused:
        lab.until_equal()
        return "the other one gave way; equal"
    lab.job = None
    restart(lab)
    return "refused by name, then equal"


@fault
def other_time_zones(lab: Lab) -> str:
    """Server and job live in other zones than UTC: wall clocks and instants stay what they are."""
    lab.sql("SET GLOBAL time_zone = '+05:45'")
    try:
        with another(lab, "zones", environment={"TZ": "America/St_Johns"}) as other:
            other.sql(
                f"ALTER TABLE {other.name}.wide ADD COLUMN at DATETIME(6), ADD COLUMN ts TIMESTAMP(6) NULL",
                "SET time_zone = '+05:45'",
                f"UPDATE {other.name}.wide SET at = '2024-03-10 02:30:00.123456', "
                "ts = '2024-03-31 01:30:00.654321' WHERE id < 20",
                f"UPDATE {other.name}.wide SET at = NOW(6), ts = NOW(6) WHERE id >= 20",
            )
            other.until_equal()
            return "equal"
    finally:
        lab.sql("SET GLOBAL time_zone = '+00:00'")
