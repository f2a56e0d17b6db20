"""What a pipeline file says of a flow's inputs: streams, and tables that they are joined with. Pure."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from ingest.config.connection_settings import BesideFile
from ingest.config.durations import DurationOrNone
from ingest.config.table_settings import Settings
from ingest.model.topics import TableId


class FlowInput(Settings):
    """Where rows come from. Exactly one of `change_log`, `kafka` and `files`, which are streams, and of `table`, `history` and `mysql`,
    which are tables to join with.
    """

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
    table: str | None = Field(
        None,
        description="A table `database.table` as its copy holds it now. Which version a batch is joined with is noted, so that a repeated "
        "one joins the same.",
    )
    history: str | None = Field(
        None,
        description="A table `database.table` with a change log: each of its rows as it was, from `valid_from` until before `valid_to`.",
    )
    mysql: str | None = Field(
        None,
        description="A table of the server that `connection` names, by JDBC, as it is at the moment: a repeated batch may join another state.",
    )
    connection: str | None = Field(None, description="Of `mysql`: one of `connections`.")
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
        if len(self._given) != 1:
            raise ValueError(
                "give exactly one of `change_log`, `kafka` and `files`, or of `table`, `history` and `mysql`"
            )
        if of := self.change_log or self.table or self.history:
            TableId.parse(of)
        if self.files and (self.columns is None) != (self.format == "text"):
            raise ValueError(
                f"files of format `{self.format}` "
                + ("have no `columns`" if self.format == "text" else "need `columns`")
            )
        if self.columns and not self.files:
            raise ValueError("`columns` is for `files` alone")
        if (self.event_time is None) != (self.watermark is None):
            raise ValueError("`event_time` and `watermark` go together")
        if not self.streams and (self.watermark or self.at_once or self.starting != "earliest"):
            raise ValueError(
                "`event_time`, `watermark`, `starting` and `at_once` are for streams alone"
            )
        if (self.mysql is None) != (self.connection is None):
            raise ValueError("`mysql` and `connection` go together")
        return self

    @property
    def _given(self) -> list[tuple[str, str]]:
        kinds = (
            ("change log", self.change_log),
            ("topic", self.kafka),
            ("files", self.files),
            ("table", self.table),
            ("history of", self.history),
            ("table of MySQL", self.mysql),
        )
        return [(kind, place) for kind, place in kinds if place]

    @property
    def streams(self) -> bool:
        """Whether it is a stream; else a table."""
        return bool(self.change_log or self.kafka or self.files)

    @property
    def logged(self) -> str | None:
        """The table whose change log it reads."""
        return self.change_log or self.history

    @property
    def place(self) -> str:
        """Kind and place, as sentences name it."""
        return " ".join(self._given[0])
