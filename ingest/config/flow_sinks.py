"""What a pipeline file says of a flow's sinks. Pure."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Literal

from pydantic import Field, field_validator, model_validator

from ingest.config.connection_settings import BesideFile
from ingest.config.table_settings import Settings
from ingest.model.names import INTERNAL_FOLDER

_KINDS = ("delta", "mysql", "redis", "kafka", "files", "console")


class FlowSink(Settings):
    """Where the result goes. Exactly one of `delta`, `mysql`, `redis`, `kafka`, `files` and `console`."""

    delta: str | None = Field(
        None,
        description="A Delta table, by its folder below the lake: each batch once, whatever dies.",
    )
    mysql: str | None = Field(
        None,
        description="A table that is there, in the database of `connection`; its columns are those of the result.",
    )
    redis: str | None = Field(
        None,
        description="What the keys of Redis begin with: `orders` makes `orders:42`, a hash whose field `row` is the newest row as JSON. "
        "At least once, and never back: each key has a version.",
    )
    connection: str | None = Field(
        None, description="Of `mysql` and `redis`: one of `connections`."
    )
    writes: Literal["transactional", "idempotent"] = Field(
        "transactional",
        description="To MySQL. `transactional`: a batch's rows and its place in the inputs in one transaction, exactly once. `idempotent`: "
        "row by row by `keys`, by Spark's tasks side by side; a repeated batch writes the same again.",
    )
    keys: tuple[str, ...] = Field(
        (),
        description="Columns by which rows are told apart: of a Delta table where `mode` is `update`, which merges by them; of MySQL's table, "
        "whose unique index they are; of Redis.",
    )
    version: str | None = Field(
        None,
        description="With `keys`: an expression in SQL, such as `position`, by which the newest of several rows of a key is told. Redis keeps it, "
        "and takes no older one; without it, it goes by the batch.",
    )
    deleted: str | None = Field(
        None,
        description="With `keys`: a condition in SQL, such as `operation = 'delete'`, on which a row removes its key.",
    )
    kafka: str | None = Field(
        None,
        description="A topic: a message of JSON for each row, by its `keys` if there are any. At least once; the header `ingest-id` tells repetitions.",
    )
    files: BesideFile | None = Field(
        None,
        description="A folder: each batch is a folder `batch=…` of its own, written whole again where it is repeated.",
    )
    format: Literal["json", "csv", "parquet"] = Field("parquet", description="Of the files.")
    console: bool = Field(default=False, description="Prints each batch.")

    @model_validator(mode="after")
    def _is_one_of_them(self) -> FlowSink:
        if len([kind for kind in _KINDS if getattr(self, kind)]) != 1:
            raise ValueError(f"give exactly one of {', '.join(f'`{kind}`' for kind in _KINDS)}")
        if self.keys and (self.files or self.console):
            raise ValueError("`keys` is not for files and the console")
        if (self.version or self.deleted) and (self.kafka or not self.keys):
            raise ValueError("`version` and `deleted` need `keys`, of a table or of Redis")
        if bool(self.connection) != bool(self.mysql or self.redis):
            raise ValueError("`connection` goes with `mysql` and `redis`")
        if self.writes == "idempotent" and not (self.mysql and self.keys):
            raise ValueError("`writes: idempotent` is of MySQL, and needs `keys`")
        if self.redis and not self.keys:
            raise ValueError("`redis` needs `keys`")
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
    def notes_places(self) -> bool:
        """Whether it is a table of MySQL beside which it is noted how far the flow is."""
        return bool(self.mysql) and self.writes == "transactional"

    @property
    def holds_its_place(self) -> bool:
        """Whether it says itself how far the flow is, in the commit that writes its rows."""
        return bool(self.delta) or self.notes_places

    @property
    def place(self) -> str:
        """As sentences name it."""
        return self.name.replace(":", " ", 1)

    @property
    def name(self) -> str:
        """What tells it from the flow's other sinks, whatever their order."""
        at = f"{self.connection}/" if self.connection else ""
        places = ((kind, getattr(self, kind)) for kind in _KINDS)
        return next(
            "console" if kind == "console" else f"{kind}:{at}{place}"
            for kind, place in places
            if place
        )
