"""`ingest init`: a first pipeline file, commented, for the embedded stack or one's own servers."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from ingest.config import pipeline_file
from ingest.local.mysql import write_secret
from ingest.local.stack import Stack
from ingest.model import topics
from ingest.model.errors import IngestError
from ingest.source import mysql

_TEMPLATE = """\
# A pipeline of ingest. `ingest schema` prints every setting; `ingest run {file} --once` applies
# what MySQL has committed by now, `ingest run {file}` keeps going, `ingest audit {file}` proves
# that the lake is equal to MySQL.
name: {name}                 # prefix of its Kafka topics; keep it once the pipeline has run

source:
  mysql: {mysql}
  password: {{file: {password_file}}}     # or {{env: VARIABLE}}; never the password itself
  # database.table with * and ?; `!` in front excludes; backquotes around a name with a dot.
  tables: {tables}
{topic_names}
kafka:
  bootstrap_servers: {kafka}
  # retention_hours: 168        # how long the lake may stand still without a new snapshot

connect:
  url: {connect}
  # password_reference: "${{dir:/secrets:mysql}}"   # when Connect runs on another machine

lake:
  path: {lake}               # tables come to <path>/<database>/<table>
  # history_hours: 168          # how far back versions of tables stay readable,
  # history_versions: 10000     # and how many of them at most

# spark:
#   master: local[*]            # or a cluster's: spark://host:port with `secret`, yarn, k8s://…
#   driver_memory: 2g
#   trigger_seconds: 0.5        # shortest time from one batch to the next
#   max_changes_per_batch: 200000
#   max_megabytes_per_batch: 64
#   lane: auto                  # where plain changes are read: the driver what is small, Spark's tasks all else
#   parallel_tables: 2          # tables of a batch committed side by side
"""


@dataclass(frozen=True)
class First:
    """What `ingest init` was told; what is None is taken from the embedded stack."""

    mysql: str
    password_file: Path
    tables: tuple[str, ...]
    name: str | None
    kafka: str | None
    connect: str | None
    lake: str | None


def write(first: First, output: Path, home: Path, *, force: bool) -> list[topics.TableId]:
    """Check the source, write the file, return the tables it takes. Raises ``IngestError``."""
    if output.exists() and not force:
        raise IngestError(
            "E-INIT-EXISTS",
            f"{output} exists already.",
            remedy="choose another file with -o, or overwrite it with --force.",
        )
    first = replace(first, password_file=_readable_by_connect(first, home))
    text = _render(first, output, home)
    pipeline = pipeline_file.parse(text, "the settings given")
    facts = mysql.server_facts(pipeline.source)
    captured = mysql.refuse_unfit(pipeline.source, facts)
    mysql.refuse_unreadable(pipeline.source, captured)
    try:
        topics.refuse_collisions(pipeline.name, captured, "plain")
    except IngestError:
        # Two tables would share a topic: route them apart from the start, and say so in the file.
        topics.refuse_collisions(pipeline.name, captured, "escaped")
        text = _render(first, output, home, escaped=True)
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text, encoding="utf-8")
    except OSError as failure:
        raise IngestError(
            "E-INIT-UNWRITABLE",
            f"{output} cannot be written: {failure.strerror}.",
            remedy="choose another file with -o.",
        ) from None
    return captured


def _readable_by_connect(first: First, home: Path) -> Path:
    """The password file itself, or a copy of it that the embedded Connect worker may read.

    The worker reads secrets from its own folder only; a file elsewhere would look to it like an
    empty password.
    """
    file = first.password_file.expanduser().absolute()
    stack = Stack.at(home)
    embedded = bool(stack.ports) and first.connect in (None, stack.connect().url)
    if not embedded or file.parent == stack.home / "secrets":
        return file
    try:
        password = file.read_text(encoding="utf-8")
    except OSError as failure:
        raise IngestError(
            "E-CONFIG-PASSWORD",
            f"The password file {file} cannot be read: {failure.strerror}.",
            remedy="name a file that holds the password and nothing else.",
        ) from None
    digest = hashlib.sha256(str(file).encode()).hexdigest()[:8]
    copy = stack.home / "secrets" / f"{file.name}-{digest}"
    write_secret(copy, password.rstrip("\n"))
    return copy


def _render(first: First, output: Path, home: Path, *, escaped: bool = False) -> str:
    kafka, connect = first.kafka, first.connect
    if kafka is None or connect is None:
        stack = Stack.at(home)
        if not stack.ports:
            raise IngestError(
                "E-INIT-STACK",
                f"No embedded stack is in {home}, and --kafka and --connect were not given.",
                remedy="run `ingest local up` first, or give both.",
            )
        kafka = kafka or stack.kafka().bootstrap_servers
        connect = connect or stack.connect().url
    name = first.name or re.sub(r"[^a-z0-9_-]", "", output.stem.lower().replace(" ", "-"))
    name = name if re.match(r"[a-z]", name) else f"p{name}"
    escaped_note = (
        "  # Two of these tables would share a Kafka topic; `escaped` keeps every table apart.\n"
        "  topic_names: escaped\n"
    )
    return _TEMPLATE.format(
        file=output.name,
        name=name[:48],
        mysql=_scalar(first.mysql),
        password_file=_scalar(str(first.password_file.expanduser().absolute())),
        tables=_flow(list(first.tables)),
        topic_names=escaped_note if escaped else "",
        kafka=_scalar(kafka),
        connect=_scalar(connect),
        lake=_scalar(first.lake or str((output.parent / "lake" / name).absolute())),
    )


def _scalar(value: str) -> str:
    return yaml.safe_dump(value, default_style='"', width=10_000, allow_unicode=True).strip()


def _flow(values: list[str]) -> str:
    return f"[{', '.join(_scalar(value) for value in values)}]"
