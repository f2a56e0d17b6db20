"""The pipeline file: YAML into frozen, typed settings. Unknown keys are refused.

Passwords are never in the file: it names a file or an environment variable, and what was read
from there is never in a ``repr``. Pure.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

import yaml
from pydantic import (
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails

from ingest.config import secret_names, yaml_text
from ingest.config.connection_settings import Connection
from ingest.config.durations import Duration
from ingest.config.flow_settings import Flow, named_plainly
from ingest.config.kafka_settings import Connect, Kafka
from ingest.config.lake_settings import Lake, is_said_by_storage
from ingest.config.observe_settings import Observe
from ingest.config.source_settings import Source
from ingest.config.spark_settings import Spark
from ingest.config.table_settings import Defaults, LogFrom, Settings, Table
from ingest.model.errors import IngestError
from ingest.model.location import in_object_store, is_local
from ingest.model.names import TARGET_PROPERTY, change_log_folder, join, table_folder
from ingest.model.position import Position
from ingest.model.topics import TableId, parse_pattern, topic_of, topic_prefix
from ingest.schema.ddl_policy import Rules
from ingest.targets import registry
from ingest.targets.target import Said, Target, Unfit


class Dedup(Settings):
    """How changes that are sent twice are recognised before they are applied."""

    by: Literal["position", "watermark", "both"] = Field(
        "position",
        description="`position`: by the highest position applied per topic partition, kept in the "
        "manifest; no state, no horizon. `watermark`: by Spark's state store, which remembers each "
        "change for `delay`. `both`: the state store thins them out first.",
    )
    delay: Duration = Field(
        "1 hour", description="How long Spark remembers a change, such as `10 minutes`."
    )

    @property
    def keeps_state(self) -> bool:
        """True when the stream goes through Spark's state store."""
        return self.by != "position"


class Pipeline(Settings):
    """One pipeline: a MySQL, the Kafka and Connect in between, and a lake."""

    name: str = Field(description="Prefix of its topics; lower-case letters, digits, `-`, `_`.")
    source: Source
    kafka: Kafka
    connect: Connect
    lake: Lake
    dedup: Dedup = Field(default_factory=lambda: Dedup.model_validate({}))
    spark: Spark = Field(default_factory=lambda: Spark.model_validate({}))
    observe: Observe = Field(default_factory=lambda: Observe.model_validate({}))
    defaults: Defaults = Field(default_factory=lambda: Defaults.model_validate({}))
    tables: dict[str, Table] = Field(
        default_factory=dict,
        description="By pattern, as in `source.tables`: what is special there.",
    )
    flows: dict[str, Flow] = Field(
        default_factory=dict,
        description="By name: streaming queries that go on from change logs, topics and files.",
    )
    connections: dict[str, Connection] = Field(
        default_factory=dict,
        description="By name: servers that flows write to, or read a table of.",
    )

    def topic(self, table: TableId) -> str:
        """The topic that carries a table's changes."""
        return topic_of(self.name, table, self.source.topic_names)

    @property
    def topic_prefix(self) -> str:
        """What the names of its data topics begin with, up to the first dot."""
        return topic_prefix(self.name, self.source.topic_names)

    def path(self, table: TableId) -> str:
        """Where a table's copy is in the lake."""
        return join(self.lake.path, table_folder(table.database, table.name))

    def change_log_path(self, table: TableId) -> str:
        """Where a table's change log is, if it has one."""
        folder = change_log_folder(table.database, table.name, self.lake.change_log_suffix)
        return join(self.lake.path, folder)

    def logs(self, table: TableId) -> bool:
        """Whether a table has a change log."""
        said = [one.targets for one in self._said_of(table)]
        return "change_log" in _last(said, self.defaults.targets)

    def change_log_from(self, table: TableId) -> LogFrom:
        """What a table's change log begins with, where the table is filled already."""
        said = [one.change_log_from for one in self._said_of(table)]
        return _last(said, self.defaults.change_log_from)

    def change_log_days(self, table: TableId) -> int:
        """How many whole days changes stay in a table's change log; 0: for ever."""
        said = [one.change_log_days for one in self._said_of(table)]
        return _last(said, self.defaults.change_log_days)

    def target(self, table: TableId, *, keyed: bool) -> Target:
        """What a table is kept as. ``keyed``: it has a key."""
        return registry.chosen(self._of_target(table), keyed=keyed)

    def noted(self, properties: Mapping[str, str], table: TableId, *, keyed: bool) -> Target:
        """What a table of the lake was last kept as, by what it says of itself; of one that says nothing, by what earlier versions read here."""
        if TARGET_PROPERTY in properties:
            return registry.noted(properties, keyed=keyed)
        return registry.of_before(self._of_target(table), keyed=keyed)

    def unfit(self, table: TableId, *, keyed: bool) -> Unfit | None:
        """Why a table cannot be kept as this file says; None where it can."""
        return registry.unfit(self._of_target(table), keyed=keyed)

    def _of_target(self, table: TableId) -> Said:
        return [one.of_target for one in self._said_of(table)]

    def _said_of(self, table: TableId) -> list[Table]:
        """What the file says of it, pattern by pattern."""
        return [s for p, s in self.tables.items() if parse_pattern(p).matches(table)]

    def unmatched(self, captured: Sequence[TableId]) -> dict[str, str]:
        """Patterns below ``tables`` that are of none of these tables, each with a sentence: what is said of a name that is spelt otherwise protects nothing."""
        names = [str(table) for table in captured]
        found = {}
        for pattern in self.tables:
            if not any(parse_pattern(pattern).matches(table) for table in captured):
                near = difflib.get_close_matches(pattern, names, n=1, cutoff=0.8)
                hint = f"; perhaps {near[0]} is meant" if near else ""
                found[pattern] = f"no table that is captured is called so{hint}"
        return found

    def rules(self, table: TableId) -> Rules:
        """What is done about DDL of a table."""
        of = self._said_of(table)
        acts = next((one.ddl.acts() for one in reversed(of) if one.ddl), {})
        approved = [Position.parse(one.approved) for one in of if one.approved]
        return Rules(acts, max(approved, default=None))

    @field_validator("tables")
    @classmethod
    def _are_keyed_by_patterns(cls, value: dict[str, Table]) -> dict[str, Table]:
        for pattern in value:
            if parse_pattern(pattern).excludes:
                raise ValueError(f"{pattern!r} excludes; name the tables that the settings are of")
        return value

    @field_validator("flows")
    @classmethod
    def _are_called_plainly(cls, value: dict[str, Flow]) -> dict[str, Flow]:
        return named_plainly(value)

    @model_validator(mode="after")
    def _has_what_flows_name(self) -> Pipeline:
        for flow, settings in self.flows.items():
            for place, name, kind in settings.servers:
                found = self.connections.get(name)
                if found is None or found.kind != kind:
                    why = "is not one of" if found is None else f"is no {kind} server, among"
                    raise ValueError(
                        f"flows.{flow}: `connection: {name}` of {place} {why} `connections`"
                    )
        written = dict[tuple[tuple[str, int, str], str], str]()
        for flow, settings in self.flows.items():
            for sink in settings.sinks:
                if sink.connection:
                    at = self.connections[sink.connection].place, sink.mysql or sink.redis or ""
                    if at in written:
                        raise ValueError(f"flows.{flow} and {written[at]} both write {sink.place}")
                    written[at] = f"flows.{flow}"
        return self

    @model_validator(mode="after")
    def _fills_logs_by_position(self) -> Pipeline:
        asked = [
            self.defaults.change_log_from,
            *(one.change_log_from for one in self.tables.values()),
        ]
        if "kafka" in asked and self.dedup.keeps_state:
            raise ValueError(
                "change_log_from: what Kafka has would be read without what Spark's state has seen; say `dedup: {by: position}`"
            )
        return self

    @model_validator(mode="after")
    def _is_reached_by_its_tasks(self) -> Pipeline:
        if self.spark.is_away and is_local(self.lake.path) and not self.lake.shared:
            raise ValueError(
                f"lake.path: {self.lake.path} is a folder of this machine, and tasks on others would write to theirs; name a place that all of them reach, such as `s3a://…`. "
                "Where the folder is the same on all of them, say so: `shared: true`"
            )
        return self

    @model_validator(mode="after")
    def _leaves_commits_exclusive(self) -> Pipeline:
        named = (*self.spark.conf, *self.spark.private_conf)
        for name in named if in_object_store(self.lake.path) else ():
            ours = name.startswith("spark.delta.logStore.")
            if ours or is_said_by_storage(name, self.lake.path):
                raise ValueError(
                    f"spark.conf: `{name}` is ours for a lake in an object store, where each commit goes by a condition that the "
                    "server looks at, and all who go there by `lake.storage`"
                )
        return self

    @model_validator(mode="after")
    def _keeps_its_secrets(self) -> Pipeline:
        conf, private = self.spark.conf, self.spark.private_conf
        if "spark.authenticate.secret" in (*conf, *private):
            raise ValueError(
                "spark.conf: for `spark.authenticate.secret` use `spark.secret`: `secret: {file: …}`"
            )
        for name, value in conf.items():
            if name in private:
                raise ValueError(f"`{name}` is in both `spark.conf` and `spark.private_conf`")
            if why := secret_names.in_plain(name, value, "spark.private_conf"):
                raise ValueError(f"spark.conf: {why}")
        for name in private:
            if why := secret_names.by_place(name):
                raise ValueError(f"spark.private_conf: {why}")
        return self

    @field_validator("name")
    @classmethod
    def _is_a_prefix(cls, value: str) -> str:
        if not re.fullmatch(r"[a-z][a-z0-9_-]{0,47}", value):
            raise ValueError(
                "1 to 48 lower-case letters, digits, `-` and `_`, beginning with a letter"
            )
        return value


T = TypeVar("T")


def _last(said: Sequence[T | None], default: T) -> T:
    """What counts where several patterns match a table: what the last of them says that says anything."""
    return next((one for one in reversed(said) if one is not None), default)


def load(path: Path) -> Pipeline:
    """Read and check a pipeline file. Raises :class:`IngestError` naming every mistake."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as failure:
        raise IngestError(
            "E-CONFIG-FILE",
            f"The pipeline file {path} is no text in UTF-8: its byte {failure.start} is part of none.",
            remedy="write it in UTF-8.",
        ) from None
    except OSError as failure:
        raise IngestError(
            "E-CONFIG-FILE",
            f"The pipeline file {path} cannot be read: {failure.strerror}.",
            remedy=_where_it_was_sought(path)
            if isinstance(failure, FileNotFoundError)
            else "name a file that this user may read.",
        ) from None
    return parse(text, str(path), path.absolute().parent)


def parse(text: str, name: str = "pipeline file", folder: Path | None = None) -> Pipeline:
    """Check the text of a pipeline file; ``name`` stands in the error; ``folder``: which flows' own files are beside. Raises
    ``IngestError``.
    """
    try:
        content = yaml_text.read(text)
    except yaml.YAMLError as failure:
        mark = getattr(failure, "problem_mark", None)
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(failure, "problem", None) or "it cannot be parsed"
        raise IngestError(
            "E-CONFIG-YAML",
            f"{name} is not valid YAML{where}: {problem}.",
            remedy="mend that line; `ingest schema` prints the JSON Schema for your editor.",
        ) from None
    if not isinstance(content, dict):
        raise IngestError(
            "E-CONFIG-YAML",
            f"{name} is empty or is not a mapping of settings.",
            remedy="`ingest init` writes a first one.",
        )
    try:
        return Pipeline.model_validate(content, context={"folder": folder})
    except ValidationError as failure:
        mistakes = tuple(_mistake(error) for error in failure.errors())
        several = len(mistakes) > 1
        raise IngestError(
            "E-CONFIG-SETTING",
            f"{name} has {len(mistakes)} mistakes" if several else f"{name}: {mistakes[0]}.",
            each=mistakes if several else (),
            means="Nothing was started.",
            remedy="correct the named settings; `ingest schema` prints all of them.",
        ) from None


def _where_it_was_sought(path: Path) -> str:
    folder = path.absolute().parent
    gone = "" if folder.is_dir() else ", which does not exist"
    return (
        "name the file that you mean, or let `ingest init` write a first one; it was looked for in the folder "
        f"{folder}{gone}."
    )


def _mistake(error: ErrorDetails) -> str:
    place = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        known = sorted(_known_keys(error["loc"][:-1]))
        near = difflib.get_close_matches(str(error["loc"][-1]), known, n=1, cutoff=0.5)
        hint = f"perhaps `{near[0]}` is meant" if near else f"known are {', '.join(known)}"
        return f"`{place}` is not a setting; {hint}"
    if error["type"] == "missing":
        return f"`{place}` is required"
    if error["type"] in ("too_short", "string_too_short"):
        return f"`{place}` is empty"
    message = error["msg"].removeprefix("Value error, ")
    # What is wrong between sections names its own places.
    return f"`{place}`: {message[0].lower()}{message[1:]}" if place else message


def _known_keys(path: tuple[Any, ...]) -> Iterator[str]:
    model: Any = Pipeline
    for part in path:
        within = {dict: -1, tuple: 0, list: 0}.get(get_origin(model))  # by name, or by number
        model = model.model_fields[part].annotation if within is None else get_args(model)[within]
        if type(None) in get_args(model):
            model = get_args(model)[0]
    yield from model.model_fields
