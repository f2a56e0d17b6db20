"""Faults of MySQL and of its log."""

from __future__ import annotations

import time
from contextlib import closing

import httpx

from ingest.connector import Connector, desired
from ingest.local import process
from ingest.local.mysql import ADMIN, PIPELINE, MySql, write_secret
from tests.kills.faults.act import another, command, expect, fault, restart, said, stop, versions
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


@fault
def failover(lab: Lab) -> str:
    """A real replica takes over, with a log of its own: a new epoch, nothing lost, nothing twice."""
    with another(lab, "failover") as other:
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
            other.change()
            stop(other)
            (applied,) = other.sql("SELECT @@gtid_executed")[0]
            lab.stack.ports["mysql"] = new.port
            other.sql(
                f"DO WAIT_FOR_EXECUTED_GTID_SET('{applied}', 60)",
                "STOP REPLICA",
                f"REPLACE INTO {other.name}.keyed VALUES (1, 1, 'by the new server')",
                f"DELETE FROM {other.name}.bag WHERE a = 2",
            )
            text = other.file.read_text()
            other.file.write_text(text.replace(f"127.0.0.1:{old.port}", f"127.0.0.1:{new.port}"))
            other.start()
            other.until_equal(300)
            other.change()
            other.until_equal()
            expect("a new epoch of the log begins" in said(other), "no new epoch")
            return "equal in the new epoch"
        finally:
            lab.stack.ports["mysql"] = old.port
            process.stop(child, grace=10)


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
    """The connector's task cannot read its rows: refused by name, and the remedy works."""
    stop(lab)
    lab.sql(
        "SET SESSION binlog_row_image = 'MINIMAL'",
        f"UPDATE {lab.name}.keyed SET v = 'minimal' WHERE id = 16",
    )
    _refused_until_taken_again(lab, "binlog_row_image")
    return "refused by name, then equal"


@fault
def second_replica(lab: Lab) -> str:
    """Another connector takes our server id: MySQL throws ours out; said by name."""
    config = {**desired(lab.pipeline()), "topic.prefix": f"{lab.name}x", "snapshot.mode": "no_data"}
    config["schema.history.internal.kafka.topic"] = f"{lab.name}x.history"
    url = f"{lab.pipeline().connect.url}/connectors/{lab.name}x"
    job = lab.job
    assert job is not None
    httpx.put(f"{url}/config", json=config, timeout=30).raise_for_status()
    try:
        for _ in range(600):
            lab.touch()
            if job.process.poll() is not None:
                break
            time.sleep(0.2)
        expect(job.process.poll() == 4 and "replica" in said(lab)[-2000:], said(lab)[-2000:])
    finally:
        httpx.delete(url, timeout=30)
    lab.job = None
    lab.change()
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
