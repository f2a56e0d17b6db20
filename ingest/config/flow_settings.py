"""What a pipeline file says of flows: streaming queries that go on from change logs, topics and files. Pure."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from ingest.config.durations import Duration, DurationOrNone
from ingest.config.table_settings import Settings
from ingest.model.names import INTERNAL_FOLDER
from ingest.model.topics import TableId

Mode = Literal["append", "update", "complete"]
"""Spark's output modes: what of the result a batch brings. The rows that are final; those that have changed; all of them."""


def _beside(value: str, info: ValidationInfo) -> str:
    folder = (info.context or {}).get("folder")
    if not value or folder is None or re.match(r"[a-z][a-z0-9+.-]+:", value):
        return value
    return str(Path(folder) / value)


BesideFile = Annotated[str, AfterValidator(_beside)]
"""A path beside the pipeline file, unless it is a URI."""


class FlowInput(Settings):
    """Where rows come from. Exactly one of `change_log`, `kafka` and `files`."""

    change_log: str | None = Field(
        None,
        description="A table `database.table` with `change_log` among its targets: each of its changes, its images by the table's "
        "columns as they are called now.",
    )
    kafka: str | None = Field(
        None,
        description="A topic of the pipeline's Kafka: `key` and `value` as text, `topic`, `partition`, `offset`, `timestamp`.",
    )
    files: BesideFile | None = Field(None, description="A folder of files; each is read once.")
    format: Literal["json", "csv", "parquet", "text"] = Field("json", description="Of the files.")
    columns: str | None = Field(
        None,
        description="Of the files, in Spark's words: `at timestamp, word string`. Not for `text`.",
    )
    event_time: str | None = Field(
        None,
        description="When a row's event happened: a column, or an expression in SQL, whose value comes as the column `event_time`.",
    )
    watermark: DurationOrNone | None = Field(
        None, description="How late an event may come, such as `10 minutes`."
    )
    starting: Literal["earliest", "latest"] = Field(
        "earliest", description="Where a new flow begins to read. Files are read from the first."
    )
    at_once: int | None = Field(
        None, ge=1, description="Files, or records of Kafka, of a batch at most."
    )

    @model_validator(mode="after")
    def _is_one_of_them(self) -> FlowInput:
        if len([one for one in (self.change_log, self.kafka, self.files) if one]) != 1:
            raise ValueError("give exactly one of `change_log`, `kafka` and `files`")
        if self.change_log:
            TableId.parse(self.change_log)
        if self.files and (self.columns is None) != (self.format == "text"):
            raise ValueError(
                f"files of format `{self.format}` "
                + ("have no `columns`" if self.format == "text" else "need `columns`")
            )
        if self.columns and not self.files:
            raise ValueError("`columns` is for `files` alone")
        if (self.event_time is None) != (self.watermark is None):
            raise ValueError("`event_time` and `watermark` go together")
        return self

    @property
    def place(self) -> str:
        """Kind and place, as sentences name it."""
        return next(
            f"{kind} {place}"
            for kind, place in (
                ("change log", self.change_log),
                ("topic", self.kafka),
                ("files", self.files),
            )
            if place
        )


class FlowSink(Settings):
    """Where the result goes. Exactly one of `delta`, `kafka`, `files` and `console`."""

    delta: str | None = Field(
        None,
        description="A Delta table, by its folder below the lake: each batch once, whatever dies.",
    )
    keys: tuple[str, ...] = Field(
        (),
        description="Columns by which a Delta table's rows are told apart; needed where `mode` is `update`, which merges by them.",
    )
    kafka: str | None = Field(
        None,
        description="A topic: a message of JSON for each row. At least once; the header `ingest-id` tells repetitions.",
    )
    files: BesideFile | None = Field(
        None,
        description="A folder: each batch is a folder `batch=…` of its own, written whole again where it is repeated.",
    )
    format: Literal["json", "csv", "parquet"] = Field("parquet", description="Of the files.")
    console: bool = Field(default=False, description="Prints each batch.")

    @model_validator(mode="after")
    def _is_one_of_them(self) -> FlowSink:
        if len([one for one in (self.delta, self.kafka, self.files, self.console) if one]) != 1:
            raise ValueError("give exactly one of `delta`, `kafka`, `files` and `console`")
        if self.keys and not self.delta:
            raise ValueError("`keys` is for `delta` alone")
        return self

    @field_validator("delta")
    @classmethod
    def _is_below_the_lake(cls, value: str | None) -> str | None:
        if value is not None:
            parts = PurePosixPath(value).parts
            if not parts or parts[0].startswith(("/", "_", ".")) or ".." in parts or ":" in value:
                raise ValueError(
                    f"expected a folder below the lake, and not below `{INTERNAL_FOLDER}`"
                )
            return str(PurePosixPath(value))
        return value

    @property
    def name(self) -> str:
        """What tells it from the flow's other sinks, whatever their order."""
        kinds = (("delta", self.delta), ("kafka", self.kafka), ("files", self.files))
        return next((f"{kind}:{place}" for kind, place in kinds if place), "console")


class Flow(Settings):
    """A streaming query of its own: a function of its inputs, with a checkpoint, run beside the mirrors."""

    python: BesideFile | None = Field(
        None,
        description="`FILE.py:FUNCTION`, beside the pipeline file: takes the inputs as DataFrames, by their names, and returns one.",
    )
    sql: BesideFile | None = Field(
        None, description="A file with one SELECT, in which the inputs are views of their names."
    )
    inputs: dict[str, FlowInput] = Field(min_length=1, description="By name.")
    watermarks: Literal["min", "max"] = Field(
        "min",
        description="Of several inputs, by whose watermark all is judged: the one that is furthest behind, by which nothing of a slow "
        "input is late, or the one that is furthest on.",
    )
    mode: Mode = Field(
        "append",
        description="What of the result a batch brings: `append`, rows that are final; `update`, rows that have changed; `complete`, "
        "all of them.",
    )
    sinks: tuple[FlowSink, ...] = Field(min_length=1)
    trigger: Duration = Field("10 seconds", description="How often a batch begins.")
    on_change: Literal["refuse", "restart"] = Field(
        "refuse",
        description="Where the flow was changed in such a way that its state cannot follow: `refuse` to run, or `restart`: read its inputs "
        "from where a new flow begins, and write its Delta tables anew.",
    )
    keep_late: bool = Field(
        default=True,
        description="Whether what comes behind the watermark, which Spark drops, is kept for `ingest flow late`.",
    )

    @field_validator("inputs")
    @classmethod
    def _are_called_plainly(cls, value: dict[str, FlowInput]) -> dict[str, FlowInput]:
        for name in value:
            if not re.fullmatch(r"[a-z_][a-z0-9_]*", name):
                raise ValueError(f"{name!r}: lower-case letters, digits and `_`")
        return value

    @model_validator(mode="after")
    def _can_be_run(self) -> Flow:
        if (self.python is None) == (self.sql is None):
            raise ValueError("give exactly one of `python` and `sql`")
        if self.python is not None and not re.fullmatch(r".+\.py:[A-Za-z_]\w*", self.python):
            raise ValueError("`python`: expected FILE.py:FUNCTION")
        if self.mode == "update":
            for sink in self.sinks:
                if sink.delta and not sink.keys:
                    raise ValueError(
                        f"`mode: update` merges into {sink.delta}; say by which `keys` its rows are told apart"
                    )
        names = [sink.name for sink in self.sinks]
        if len({*names}) < len(names):
            raise ValueError("two sinks are the same")
        return self


def named_plainly(flows: dict[str, Flow]) -> dict[str, Flow]:
    """The same. Raises ``ValueError`` for a name that no folder and no thread may have, and for two flows that write one table."""
    written = dict[str, str]()
    for name, flow in flows.items():
        if not re.fullmatch(r"[a-z][a-z0-9_-]{0,47}", name):
            raise ValueError(
                f"{name!r}: 1 to 48 lower-case letters, digits, `-` and `_`, beginning with a letter"
            )
        for sink in flow.sinks:
            place = sink.delta or sink.files
            if place and sink.name in written:
                raise ValueError(f"{name} and {written[sink.name]} both write {place}")
            written |= {sink.name: name} if place else {}
    return flows
