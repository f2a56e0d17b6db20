"""What a pipeline file says of single tables. Pure."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from ingest.model.position import Position
from ingest.schema.ddl_policy import Act, Kind


class Settings(BaseModel):
    """Base of every section: frozen, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Ddl(Settings):
    """What is done about each kind of DDL."""

    add_column: Act = "evolve"
    drop_column: Act = "evolve"
    rename_column: Literal["evolve", "pause", "fail"] = "evolve"
    change_type: Literal["evolve", "pause", "fail"] = "evolve"
    change_key: Literal["evolve", "pause", "fail"] = "evolve"
    drop_table: Act = Field(
        "evolve", description="Of a DROP TABLE, a DROP DATABASE, a table renamed away."
    )
    truncate: Literal["evolve", "ignore"] = "evolve"

    def acts(self) -> dict[Kind, Act]:
        """What is not simply followed."""
        everything: dict[Any, Act] = self.model_dump()
        return {kind: act for kind, act in everything.items() if act != "evolve"}


_REST: dict[str, Act] = dict.fromkeys(("rename_column", "change_type", "change_key"), "pause")
_WORDS: dict[str, dict[str, Any]] = {
    "evolve": {},
    "add_only": {"drop_column": "ignore", **_REST},
    "ignore": {
        **dict.fromkeys(("add_column", "drop_column", "drop_table", "truncate"), "ignore"),
        **_REST,
    },
    "pause": dict.fromkeys(("add_column", "drop_column", "drop_table", *_REST), "pause"),
    "fail": dict.fromkeys(("add_column", "drop_column", "drop_table", *_REST), "fail"),
}
"""One word for all kinds. What cannot be ignored without a wrong value pauses."""


def _or_a_word(schema: Any) -> None:
    schema["anyOf"].insert(0, {"enum": [*_WORDS]})


class Table(Settings):
    """What is special about some tables."""

    append_only: bool = Field(
        False,
        description="Of a table without a key: the lake keeps every row that was ever inserted. Deletes and "
        "truncates at the source leave the lake's rows where they are; an update, which a log cannot "
        "have, is quarantined.",
    )
    ddl: Ddl | None = Field(
        None,
        description="What is done about DDL: one word (`evolve`, `add_only`, `ignore`, `pause`, `fail`) or one "
        "per kind of change. Where several patterns match a table, the last one with `ddl` counts.",
        json_schema_extra=_or_a_word,
    )
    approved: str | None = Field(
        None,
        description="A position of the log, as `ingest status` shows it: DDLs up to there pause or fail no more.",
    )

    @field_validator("ddl", mode="before")
    @classmethod
    def _is_a_word_or_a_list(cls, value: Any) -> Any:
        if isinstance(value, str):
            if value not in _WORDS:
                raise ValueError(
                    f"expected one of {', '.join(_WORDS)}, or a policy per kind of DDL"
                )
            return _WORDS[value]
        return value

    @field_validator("approved")
    @classmethod
    def _is_a_position(cls, value: str | None) -> str | None:
        if value is not None:
            Position.parse(value)
        return value
