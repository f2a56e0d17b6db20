"""The Debezium connector as desired state: plan, apply, and tell how it really is.

Connect's REST interface has two traps that this module hides. A PUT with any mistake in it is
answered by HTTP 500 without the reason, so the mistake is asked of the validate endpoint first; and
``connector.state`` says RUNNING while the one task has failed or lost its binlog connection, so
health is judged from the task, its progress and the server's own list of binlog streams.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import yaml

from ingest.config.pipeline_file import Pipeline
from ingest.config.resources import resource
from ingest.model.errors import Exit, IngestError
from ingest.model.gtid import GtidSet
from ingest.model.position import Position, file_number
from ingest.model.topics import captured, include_expression
from ingest.schema import snapshot_select
from ingest.source import mysql, worker_secrets
from ingest.source.connect_rest import Rest, Say, again_while
from ingest.source.mysql import Reached

_STRATEGIES = {
    "plain": "io.debezium.schema.DefaultTopicNamingStrategy",
    "escaped": "io.debezium.schema.DefaultUnicodeTopicNamingStrategy",
}
PLUGIN = "MySqlConnector"
_UNKNOWN_TABLES = "inconsistent.schema.handling.mode"
"""Debezium's setting for changes of tables whose columns it does not know: by default its task fails."""


NO_ROWS = "no_data"
"""The mode of a snapshot that reads tables' definitions alone."""


def desired(pipeline: Pipeline) -> dict[str, str]:
    """The connector's configuration: ``connect/mysql-connector.yaml`` filled in."""
    source = pipeline.source
    values = {
        "NAME": pipeline.name,
        "NAME_EXPRESSION": re.escape(pipeline.name),
        "HOST": source.host,
        "PORT": str(source.port),
        "USER": source.user,
        "PASSWORD_REFERENCE": worker_secrets.password_reference(pipeline),
        "SERVER_ID": str(source.server_id or derived_server_id(pipeline.name)),
        "TABLES": include_expression(source.tables),
        "TOPIC_NAMING": _STRATEGIES[source.topic_names],
        "BOOTSTRAP_SERVERS": pipeline.kafka.bootstrap_servers,
        "REPLICATION_FACTOR": str(pipeline.kafka.replication_factor),
        "RETENTION_MS": str(pipeline.kafka.retention_hours * 3_600_000),
    }
    template: dict[str, str] = yaml.safe_load(
        resource("connect", "mysql-connector.yaml").read_text(encoding="utf-8")
    )
    return {
        key: re.sub(r"@([A-Z_]+)@", lambda found: values[found.group(1)], text)
        for key, text in template.items()
    } | {**pipeline.connect.settings, **worker_secrets.settings(pipeline)}


def derived_server_id(name: str) -> int:
    """A replica id from the pipeline's name, far from the small numbers people give servers."""
    return 100_000_000 + zlib.crc32(name.encode()) % 1_000_000_000


@dataclass(frozen=True)
class Plan:
    """What `apply` would do: create, change some settings, or nothing."""

    action: Literal["create", "change", "nothing"]
    changes: tuple[tuple[str, str | None, str | None], ...]
    """(setting, value now, value desired), in order of name."""


def plan_from(current: Mapping[str, str] | None, wanted: Mapping[str, str]) -> Plan:
    """Compare the configuration that Connect holds with the desired one."""
    if current is None:
        return Plan("create", tuple((key, None, wanted[key]) for key in sorted(wanted)))
    now = {key: value for key, value in current.items() if key != "name"}
    changes = tuple(
        (key, now.get(key), wanted.get(key))
        for key in sorted({*now, *wanted})
        if now.get(key) != wanted.get(key)
    )
    return Plan("change" if changes else "nothing", changes)


_UNPARSED = re.compile(
    r"DDL statement couldn't be parsed\. .{0,120}? with the statement '(.*?)'\n", re.DOTALL
)


@dataclass(frozen=True)
class Status:
    """What Connect says: states of connector and task, and the last cause of a failure."""

    connector: str
    task: str
    trace: str

    @property
    def cause(self) -> str:
        """The useful line of a stack trace: the last ``Caused by``, without the class where it has words of its own. Of a
        statement that was not parsed the statement, which names its table; below that stands the parser's own class alone.
        """
        if unparsed := _UNPARSED.search(self.trace):
            return f"DDL statement couldn't be parsed: {' '.join(unparsed[1].split())[:500]}"
        lines = [line.strip() for line in self.trace.splitlines() if line.strip()]
        causes = [line for line in lines if line.startswith("Caused by:")] or lines[:1]
        if not causes:
            return ""
        found = re.match(r"(?:Caused by: )?[\w.$]*?([\w$]+(?:Exception|Error)): (.*)", causes[-1])
        if found is None:
            return causes[-1]
        name, words = found.groups()
        return words if re.search(r"[^\W\d_]", words) else f"{name}: {words}"


class Connector:
    """One connector of one Connect cluster, named after its pipeline."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.name = pipeline.name
        self.passes_over = False
        """Whether changes of tables whose columns Debezium does not know are passed over: only while such ones join, of
        which a gap says that rows are missing. At all other times its task is to fail."""
        self.leaves_out: tuple[str, ...] = ()
        """Patterns of tables that it leaves out beside those of the pipeline file (``LeftOut``)."""
        self.leaves_rows = False
        """Whether its first snapshot is to read definitions alone, since rows come in chunks (``first_rows``). Only until it
        streams: were its offset lost later, nothing would say which changes it has passed over."""
        self._call = Rest(pipeline.connect).call

    def plan(self) -> Plan:
        """What :meth:`apply` would change."""
        current = self.current()
        return plan_from(current, self._wanted(current))

    def apply(self, say: Say | None = None) -> Plan:
        """Make it so; a second call changes nothing. ``say``: as of :meth:`offset`. Raises :class:`IngestError` with reasons."""
        current = self.current()
        wanted = self._wanted(current, say)
        plan = plan_from(current, wanted)
        if plan.action != "nothing":
            self._validate(wanted)
            self._call("PUT", f"/connectors/{self.name}/config", json=wanted)
        return plan

    def status(self) -> Status | None:
        """States as Connect reports them, or None when there is no such connector."""
        answer = self._call("GET", f"/connectors/{self.name}/status", absent_ok=True)
        if answer is None:
            return None
        tasks = answer.get("tasks") or [{}]
        return Status(
            answer["connector"]["state"],
            tasks[0].get("state", "UNASSIGNED"),
            tasks[0].get("trace") or answer["connector"].get("trace") or "",
        )

    def offset(self, say: Say | None = None) -> dict[str, Any] | None:
        """The source offset that Connect has stored, committed with the records before it. With ``say``, of one that can do
        nothing without it: a hanging transaction is waited for, too, and a sentence says so.
        """
        path = f"/connectors/{self.name}/offsets"
        answer = self._call("GET", path, absent_ok=True, say=say)
        offsets = (answer or {}).get("offsets") or []
        return dict(offsets[0]["offset"]) if offsets else None

    def pause(self) -> None:
        """Stop reading, keep the task's place."""
        self._call("PUT", f"/connectors/{self.name}/pause")

    def resume(self) -> None:
        """Undo :meth:`pause` and :meth:`stop`, and wait a little until Connect says so: who looks next is not to find it standing
        still.
        """
        self._call("PUT", f"/connectors/{self.name}/resume")
        again_while(_stands_still, 50, 0.1)(self.status)

    def restart(self) -> None:
        """Restart connector and task, failed or not."""
        self._call("POST", f"/connectors/{self.name}/restart?includeTasks=true&onlyFailed=false")

    def stop(self) -> None:
        """End the task and wait until it has ended: nothing more of it comes to Kafka."""
        self._call("PUT", f"/connectors/{self.name}/stop")
        status = again_while(_runs_still, 300, 0.1)(self.status)
        if not _runs_still(status):
            return
        raise IngestError(
            "E-CONNECT-ANSWER",
            f"The connector {self.name!r} did not stop within 30 s.",
            remedy="read Connect's log; `ingest connector status` shows the connector.",
            exit_code=Exit.FAILED,
        )

    def forget_offset(self) -> None:
        """Remove the stored offset of a stopped connector: it begins with a snapshot."""
        self._call("DELETE", f"/connectors/{self.name}/offsets")

    def begin_again(self) -> None:
        """From a snapshot, as if it had never run. A crash in between leaves it stopped, or failing as before."""
        self.stop()
        self.forget_offset()
        self.resume()

    def delete(self) -> None:
        """Remove it and wait until Connect has forgotten it; topics and the lake stay."""
        self._call("DELETE", f"/connectors/{self.name}", absent_ok=True)
        again_while(lambda status: status is not None, 100, 0.1)(self.status)

    def _wanted(self, current: Mapping[str, str] | None, say: Say | None = None) -> dict[str, str]:
        """What is desired, and how its snapshot reads tables that need a statement of ours. As long as that snapshot is to
        come or may begin again, MySQL says which these are; later they stay as they are, since a change would restart the
        connector for nothing.
        """
        wanted = desired(self.pipeline)
        if self.leaves_out:
            taken_now = (*self.pipeline.source.tables, *self.leaves_out)
            wanted["table.include.list"] = include_expression(taken_now)
        if self.passes_over:
            wanted = {_UNKNOWN_TABLES: "warn"} | wanted
        begins = is_snapshotting(self.offset(say))
        if begins and self.leaves_rows:
            wanted["snapshot.mode"] = NO_ROWS
        if snapshot_select.SETTING in wanted:  # the pipeline file's own
            return wanted
        if not begins:
            return wanted | snapshot_select.of_settings(current or {})
        source = self.pipeline.source
        with mysql.connected(source) as cursor:
            known = mysql.own_selects(cursor)
        taken = {table: known[table] for table in captured(known, source.tables)}
        return wanted | snapshot_select.settings(taken)

    def current(self) -> dict[str, str] | None:
        """Its settings as Connect has them; None where there is no such connector."""
        return self._call("GET", f"/connectors/{self.name}/config", absent_ok=True)

    def _validate(self, wanted: dict[str, str]) -> None:
        answer = self._call(
            "PUT",
            f"/connector-plugins/{PLUGIN}/config/validate",
            json={**wanted, "name": self.name},
        )
        errors = [
            f"{entry['value']['name']}: {'; '.join(entry['value']['errors'])}"
            for entry in (answer or {}).get("configs", [])
            if entry.get("value") and entry["value"].get("errors")
        ]
        if errors:
            remedy = "correct the pipeline file; `ingest connector plan` shows what it becomes."
            if "Access denied" in " ".join(errors):
                # We could log in ourselves, or we would not be here.
                remedy = (
                    f"let the Connect worker read the password: it resolves "
                    f"{worker_secrets.password_reference(self.pipeline)} (a config provider with that folder in "
                    "its allowed.paths), or set `connect.password_reference`."
                )
            raise IngestError(
                "E-CONNECTOR-CONFIG",
                f"Debezium refuses the connector {self.name!r}: {' · '.join(errors)}.",
                means="The connector was not created or changed.",
                remedy=remedy,
            )


def _runs_still(status: Status | None) -> bool:
    return status is not None and (status.connector, status.task) != ("STOPPED", "UNASSIGNED")


def _stands_still(status: Status | None) -> bool:
    return status is not None and status.connector in ("PAUSED", "STOPPED")


def is_snapshotting(offset: Mapping[str, Any] | None) -> bool:
    """True until the stored offset is one of the binlog's: before the first, in a snapshot, and while one that has just begun
    has no place yet (``Facts.begun_nowhere``).
    """
    return offset is None or "file" not in offset or bool(offset.get("snapshot"))


def streaming_position(offset: Mapping[str, Any] | None, epoch: int) -> Position | None:
    """Where the stored offset stands in the log; None before it streams."""
    if is_snapshotting(offset) or offset is None or "file" not in offset:
        return None
    return Position(epoch, file_number(str(offset["file"])), int(offset["pos"]))


def delivered(offset: Mapping[str, Any] | None, target: Reached) -> bool:
    """True when every change that MySQL's log held at ``target`` is in Kafka.

    By GTIDs where the server has them, else by file and byte position. False during a snapshot.
    """
    if target.gtids.count():
        return undelivered(offset, target) == 0
    if not offset or offset.get("snapshot") or "file" not in offset:
        return False
    return (file_number(str(offset["file"])), int(offset["pos"])) >= (target.file, target.pos)


def undelivered(offset: Mapping[str, Any] | None, target: Reached) -> int | None:
    """How many transactions at ``target`` are not known to be in Kafka; None during a snapshot.

    What is no transaction of rows (a DDL, a GRANT) moves the offset's position at once, but its GTID
    enters the offset with the next transaction only (tests/integration/test_connector.py). So one missing GTID is
    nothing missing when the position has passed; in the same file, as a server that was replaced
    has other files.
    """
    found = offset_gtids(offset)
    if found is None or offset is None:
        return None
    missing = target.gtids.minus_count(found)
    here = "file" in offset and file_number(str(offset["file"])) == target.file
    return 0 if missing == 1 and here and int(offset["pos"]) >= target.pos else missing


def offset_gtids(offset: Mapping[str, Any] | None) -> GtidSet | None:
    """GTIDs whose changes are all in Kafka, or None during a snapshot or before any offset."""
    if not offset or offset.get("snapshot") or "gtids" not in offset:
        return None
    return GtidSet.parse(str(offset["gtids"] or ""))
