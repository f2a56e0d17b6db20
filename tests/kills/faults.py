"""Faults between MySQL and the lake, each brought about for real and each ended without a human.

    python -m tests.kills.faults [--only resync_keyed] [--list]

One pipeline and one stack for all of them; after each, the lake is what MySQL says.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable

from ingest import kafka
from ingest.demo.job import Job
from ingest.local.stack import Stack
from ingest.manifest import Entry
from tests.kills.lab import TABLES, Lab, LabError

FAULTS: dict[str, Callable[[Lab], str]] = {}


def fault(act: Callable[[Lab], str]) -> Callable[[Lab], str]:
    FAULTS[act.__name__] = act
    return act


def expect(fact: object, what: str) -> None:
    if not fact:
        raise LabError(what)


def stop(lab: Lab) -> None:
    assert lab.job is not None
    lab.job.stop()
    lab.job = None


def restart(lab: Lab, *words: str) -> None:
    lab.start(*words)
    lab.until_equal()


def versions(lab: Lab) -> dict[str, int]:
    return {table: DeltaTable(str(lab.lake / lab.name / table)).version() for table in TABLES}


def said(lab: Lab) -> str:
    return (lab.folder / "job.log").read_text(errors="replace")


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
def table_restored(lab: Lab) -> str:
    """RESTORE to an older version while the job runs: noticed, and applied again from Kafka."""
    lab.change()
    lab.until_equal()
    table = DeltaTable(str(lab.lake / lab.name / "keyed"))
    table.restore(max(1, table.version() - 4))
    lab.touch()
    lab.until_equal(240)
    expect("restored" in said(lab), "nobody noticed")
    return "equal"


@fault
def table_dropped(lab: Lab) -> str:
    stop(lab)
    shutil.rmtree(lab.lake / lab.name / "emptied")
    shutil.rmtree(lab.lake / lab.name / "bag")
    lab.change()
    restart(lab)
    return "equal"


@fault
def another_writer(lab: Lab) -> str:
    """Refused with the version to go back to; that done, all is well."""
    stop(lab)
    path = str(lab.lake / lab.name / "wide")
    known = lab.entry().tables[f"{lab.name}.wide"].version
    DeltaTable(path).delete("id = 1")
    done = command(lab, "run", str(lab.file), "--once", check=False)
    expect(done.returncode == 2 and "E-START-REFUSED" in done.stderr, done.stderr)
    expect(f"VERSION AS OF {known}" in done.stderr, done.stderr)
    DeltaTable(path).restore(known)
    lab.change()
    restart(lab)
    return "refused, then equal"


@fault
def checkpoint_deleted(lab: Lab) -> str:
    """R5, at ten random moments: killed in the middle of a batch or not, then no checkpoint."""
    times = int(os.environ.get("INGEST_CHECKPOINTS", "2"))
    rng = random.Random(5)
    for _ in range(times):
        lab.change()
        time.sleep(rng.uniform(0, 4))
        lab.kill("driver")
        shutil.rmtree(lab.lake / "_ingest" / "checkpoint", ignore_errors=True)
        lab.change()
        restart(lab)
    return f"equal after each of {times}"


@fault
def checkpoint_torn(lab: Lab) -> str:
    """An empty offsets file, a torn commit, a missing metadata file: said, and mended."""
    for name in ("offsets", "commits", "metadata"):
        lab.change()
        lab.until_equal()
        lab.kill("driver")
        folder = lab.lake / "_ingest" / "checkpoint"
        if name == "metadata":
            (folder / name).unlink()
        else:
            newest = max((p for p in (folder / name).iterdir() if p.name.isdigit()), key=_number)
            newest.write_text("v1\n{")
        for crc in (folder / name).parent.rglob(".*.crc"):
            crc.unlink()
        lab.change()
        restart(lab)
        expect("cannot be used" in said(lab), "nobody said what was wrong")
    return "equal"


def _number(path: Path) -> int:
    return int(path.name)


@fault
def commits_deleted(lab: Lab) -> str:
    """The newest commits/N is gone at every start: the batch comes again and changes nothing."""
    for _ in range(2):
        lab.change()
        lab.until_equal()
        lab.kill("driver")
        before = versions(lab)
        folder = lab.lake / "_ingest" / "checkpoint" / "commits"
        newest = max((p for p in folder.iterdir() if p.name.isdigit()), key=_number)
        newest.unlink()
        (folder / f".{newest.name}.crc").unlink(missing_ok=True)
        restart(lab)
        expect(versions(lab) == before, "a replay changed a table")
    return "equal, no new version"


@fault
def from_the_beginning(lab: Lab) -> str:
    """R4: every topic again, under a new checkpoint: no content changes, no version appears."""
    lab.change()
    lab.until_equal()
    stop(lab)
    before, batch = versions(lab), lab.entry().batch_id
    lab.start("--from-beginning")
    lab.until(lambda: _caught_up(lab, batch), "reading all of it again", 240)
    lab.until_equal()
    expect(versions(lab) == before, f"{before} became {versions(lab)}")
    return f"equal, no new version; {lab.entry().resent} changes recognised in the last batch"


def _caught_up(lab: Lab, batch: int) -> bool:
    entry: Entry | None = lab.entry()
    return entry is not None and entry.batch_id > batch + 1


@fault
def retention_overtook(lab: Lab) -> str:
    """Kafka lost records before they were applied: a durable gap, and the table is taken again."""
    stop(lab)
    lab.change()
    topic = f"{lab.name}.{lab.name}.keyed"
    pipeline = lab.pipeline()
    time.sleep(5)  # until the connector has delivered them
    end = kafka.end_offsets(pipeline, [topic])[(topic, 0)]
    admin = AdminClient({"bootstrap.servers": pipeline.kafka.bootstrap_servers})
    for future in admin.delete_records([TopicPartition(topic, 0, end)]).values():
        future.result(10)
    lab.start()
    lab.until_equal(300)
    expect(lab.entry().gaps, "the gap was not recorded")
    lab.until(lambda: not any(gap.is_open for gap in lab.entry().gaps), "closing the gap")
    return f"equal; gap {lab.entry().gaps[0].start}..{lab.entry().gaps[0].end} recorded and closed"


@fault
def topic_made_again(lab: Lab) -> str:
    stop(lab)
    lab.change()
    pipeline = lab.pipeline()
    topic = f"{lab.name}.{lab.name}.wide"
    admin = AdminClient({"bootstrap.servers": pipeline.kafka.bootstrap_servers})
    admin.delete_topics([topic])[topic].result(20)
    time.sleep(5)
    lab.change()
    time.sleep(5)
    lab.start()
    lab.until_equal(300)
    expect(any("topic was deleted" in gap.reason for gap in lab.entry().gaps), "no gap recorded")
    return "equal; gap recorded and closed"


@fault
def suspended_and_succeeded(lab: Lab) -> str:
    """SIGSTOP in the middle of a batch, a standby takes over, SIGCONT: the first commits nothing."""
    first = lab.job
    assert first is not None
    refused = command(lab, "run", str(lab.file), "--once", check=False)
    expect("E-LEASE-HELD" in refused.stderr and refused.returncode == 2, refused.stderr)
    standby = Job.start(lab.file, lab.folder / "standby.log", words=["--standby"])
    log = lab.folder / "standby.log"
    lab.until(lambda: log.exists() and "standing by" in log.read_text(), "standing by")
    time.sleep(8)  # its Spark is warm
    lab.arm(f"table_committed~{lab.name}.bag")
    lab.change()
    lab.until_reached()
    os.killpg(first.process.pid, signal.SIGSTOP)
    lab.disarm()
    stopped = time.monotonic()
    lab.job = standby
    lab.until(lambda: "taking over" in log.read_text(), "taking over", 60)
    took = time.monotonic() - stopped
    lab.touch()
    lab.until_equal()
    before = versions(lab)
    os.killpg(first.process.pid, signal.SIGCONT)
    status = first.process.wait(120)
    expect(status == 4 and "E-LEASE-LOST" in first.log.read_text(), f"{status}: {said(lab)[-500:]}")
    expect(versions(lab) == before, "the suspended job committed after its successor")
    lab.change()
    lab.until_equal()
    return f"taken over after {took:.0f} s, equal; the first ended with E-LEASE-LOST"


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


@fault
def binlog_purged(lab: Lab) -> str:
    """The log that the connector needs is gone: said with a remedy, and the remedy works."""
    stop(lab)
    connector = f"{lab.pipeline().connect.url}/connectors/{lab.name}"
    import httpx

    httpx.put(f"{connector}/stop", timeout=30)
    time.sleep(2)
    lab.change()
    lab.sql(f"DELETE FROM {lab.name}.keyed WHERE id = 13", "FLUSH BINARY LOGS")
    newest = lab.sql("SHOW BINARY LOGS")[-1][0]
    lab.sql(f"PURGE BINARY LOGS TO '{newest}'")
    httpx.put(f"{connector}/resume", timeout=30)
    done = command(lab, "run", str(lab.file), "--once", check=False)
    expect(done.returncode == 4 and "resync" in done.stderr, done.stderr)
    command(lab, "resync", str(lab.file), "--all")
    lab.start()
    lab.until_equal(300)
    return "refused with a remedy, then equal"


@fault
def sent_again_with_state(lab: Lab) -> str:
    """Spark's own state store in front: what is sent again is thinned out, nothing is lost.

    Records are put into the topic once more, byte for byte, as a worker without transactions does.
    """
    stop(lab)
    other = Lab(lab.stack, lab.folder / "state", name="state", settings={"dedup": {"by": "both"}})
    other.create()
    other.write_pipeline()
    other.disarm()
    other.start()
    try:
        other.until_equal()
        other.change()
        other.until_equal()
        topic = "state.state.keyed"
        pipeline = other.pipeline()
        consumer = kafka.client(pipeline)
        end = kafka.end_offsets(pipeline, [topic])[(topic, 0)]
        consumer.assign([TopicPartition(topic, 0, max(0, end - 15))])
        producer = Producer(kafka.connection(pipeline))
        sent = 0
        while consumer.position([TopicPartition(topic, 0)])[0].offset < end:
            message = consumer.poll(1)
            if message is not None and not message.error() and b'"op":"r"' not in message.value():
                headers = message.headers()
                producer.produce(topic, message.value(), message.key(), headers=headers)
                sent += 1
        producer.flush(10)
        consumer.close()
        other.change()
        other.until_equal()
        entry = other.entry()
        expect(sent and entry.state_rows, f"{sent} sent again, {entry.state_rows} remembered")
        expect(entry.resent == 0, f"{entry.resent} came through the state store")
        return f"equal; {sent} sent again, {entry.state_rows} rows of state"
    finally:
        other.close()
        lab.start()


def command(lab: Lab, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "ingest", *words],
        capture_output=True,
        text=True,
        cwd=lab.folder,
        env={**os.environ, "INGEST_HOME": str(lab.stack.home), "NO_COLOR": "1", "COLUMNS": "200"},
        timeout=300,
    )
    if check and done.returncode:
        raise LabError(f"{words}: {done.stderr}")
    return done


def laboratory(stack: Stack, folder: Path, name: str = "faults") -> Lab:
    lab = Lab(stack, folder, name=name)
    lab.create()
    lab.write_pipeline()
    lab.disarm()
    lab.start()
    lab.until_equal()
    return lab


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    names = [name for name in FAULTS if not given.only or name in given.only.split(",")]
    if given.list:
        print("\n".join(names))
        return
    failed = []
    with tempfile.TemporaryDirectory(prefix="ingest-faults-") as home:
        stack = Stack.at(Path(home) / "stack")
        stack.up({}, print)
        lab = None
        try:
            for number, name in enumerate(names):
                started = time.monotonic()
                try:
                    lab = lab or laboratory(stack, Path(home) / f"lab{number}", f"faults{number}")
                    result = FAULTS[name](lab)
                except Exception as failure:
                    traceback.print_exc()
                    if lab is not None:
                        print(said(lab)[-1500:])
                        lab.close()
                        lab = None
                    result = f"FAILED: {type(failure).__name__}: {failure}"[:600]
                    failed.append(name)
                    stack.up({})
                print(f"{name:<26} {time.monotonic() - started:6.1f} s  {result}", flush=True)
        finally:
            if lab is not None:
                lab.close()
            stack.down()
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
