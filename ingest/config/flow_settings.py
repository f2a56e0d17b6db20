"""What a pipeline file says of flows: streaming queries that go on from change logs, topics and files. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from pydantic import Field, field_validator, model_validator

from ingest.config.connection_settings import BesideFile, Kind
from ingest.config.durations import DurationOrNone
from ingest.config.flow_inputs import FlowInput
from ingest.config.flow_sinks import FlowSink
from ingest.config.flow_totals import Totals
from ingest.config.table_settings import Settings

Mode = Literal["append", "update", "complete"]
"""Spark's output modes: what of the result a batch brings. The rows that are final; those that have changed; all of them."""


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
    totals: Totals | None = Field(
        None,
        description="Totals of the function's rows, which stay right while rows change and go: the inputs are change logs, as tables of what "
        "each holds now.",
    )
    trigger: DurationOrNone = Field(
        "10 seconds",
        description="How often a batch begins; `0 seconds`: as soon as there is something to read.",
    )
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
        if not any(one.streams for one in self.inputs.values()):
            raise ValueError(
                "no input is a stream: name a change log, a topic or a folder of files"
            )
        if self.totals is not None:
            self._refuse_for_totals(self.totals)
        for sink in self.sinks:
            if self.mode == "update" and (sink.delta or sink.mysql) and not sink.keys:
                raise ValueError(
                    f"`mode: update` merges into {sink.place}; say by which `keys` its rows are told apart"
                )
            if sink.deleted and sink.delta and self.mode != "update" and not self.totals:
                raise ValueError(f"`deleted` of {sink.place}: needs `mode: update`, which merges")
        names = [sink.name for sink in self.sinks]
        if len({*names}) < len(names):
            raise ValueError("two sinks are the same")
        return self

    def _refuse_for_totals(self, totals: Totals) -> None:
        if not all(one.change_log for one in self.inputs.values()):
            raise ValueError("`totals` go by change logs alone")
        if any(
            one.watermark or one.at_once or one.starting != "earliest"
            for one in self.inputs.values()
        ):
            raise ValueError("`totals` need no `event_time`, `watermark`, `starting` and `at_once`")
        if self.mode != "append":
            raise ValueError("`totals` have no `mode`")
        if not any(one.delta for one in self.sinks):
            raise ValueError("`totals` are kept in a Delta table: name one among the `sinks`")
        for sink in self.sinks:
            if not (sink.delta or sink.mysql or sink.redis):
                raise ValueError("`totals` go to Delta, MySQL and Redis")
            if {*sink.keys} - {*totals.by} or (sink.keys and len(sink.keys) < len(totals.by)):
                raise ValueError(
                    f"`keys` of {sink.place}: totals are told apart by {', '.join(totals.by)}"
                )
            if not sink.keys and not sink.delta:
                raise ValueError(f"{sink.place} needs `keys: [{', '.join(totals.by)}]`")
            if sink.version or sink.deleted:
                raise ValueError("`totals` need no `version` and no `deleted`")

    @property
    def reads_mysql(self) -> bool:
        """Whether an input is a table of a server, which Spark reads by JDBC."""
        return any(one.mysql for one in self.inputs.values())

    @property
    def servers(self) -> Iterator[tuple[str, str, Kind]]:
        """What goes to one of `connections`: place, name, and what that has to be."""
        for name, one in self.inputs.items():
            if one.connection:
                yield f"the input {name}", one.connection, "mysql"
        for sink in self.sinks:
            if sink.connection:
                yield sink.place, sink.connection, "mysql" if sink.mysql else "redis"


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
