"""What a pipeline file says of single tables. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model, field_validator

from ingest.model.position import Position
from ingest.schema.ddl_policy import Act, Kind
from ingest.targets import registry


class Settings(BaseModel):
    """Base of every section: frozen, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


Written = Literal["mirror", "change_log"]
"""What is written of a table: its copy, which holds what the source holds now; and each change of it, once."""

LogFrom = Literal["now", "kafka"]
"""What comes first into the change log of a table that is filled already: the next change, or those that Kafka still has."""


def mirror_among(written: Sequence[Written]) -> None:
    """Raises ``ValueError`` where a table would have no copy, from which all else goes on."""
    if "mirror" not in written:
        raise ValueError("`mirror` has to be among the targets: a change log goes on from it")


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


class Defaults(Settings):
    """What holds for tables of which `tables` says nothing else."""

    targets: tuple[Written, ...] = Field(
        ("mirror",), description="What is written, as below `tables`."
    )
    change_log_from: LogFrom = Field(
        "now",
        description="What change logs that are asked for later begin with, as below `tables`.",
    )
    change_log_days: int = Field(
        0, ge=0, description="How long changes stay in change logs, as below `tables`."
    )

    @field_validator("targets")
    @classmethod
    def _has_a_mirror(cls, value: tuple[Written, ...]) -> tuple[Written, ...]:
        mirror_among(value)
        return value


class _AnyTarget(Settings):
    """What is special about some tables, whatever their target."""

    ddl: Ddl | None = Field(
        None,
        description="What is done about DDL: one word (`evolve`, `add_only`, `ignore`, `pause`, `fail`) or one "
        "per kind of change. Where several patterns match a table, the last one with `ddl` counts.",
        json_schema_extra=_or_a_word,
    )
    targets: tuple[Written, ...] | None = Field(
        None,
        description="What is written: `mirror`, the table's copy; `change_log`, each of its changes once, in a table that is only "
        "appended to, beside the copy. Where several patterns match a table, the last one with `targets` counts.",
    )
    change_log_from: LogFrom | None = Field(
        None,
        description="What the change log of a table that is filled already begins with: `now`, its next change; `kafka`, all that "
        "Kafka still has of it. Where several patterns match a table, the last one with `change_log_from` counts.",
    )
    change_log_days: int | None = Field(
        None,
        ge=0,
        description="How many whole days (UTC) the changes in a change log stay; 0: for ever. Where several patterns match a table, the last "
        "one with `change_log_days` counts.",
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

    @field_validator("targets")
    @classmethod
    def _has_a_mirror(cls, value: tuple[Written, ...] | None) -> tuple[Written, ...] | None:
        if value is not None:
            mirror_among(value)
        return value

    @field_validator("approved")
    @classmethod
    def _is_a_position(cls, value: str | None) -> str | None:
        if value is not None:
            Position.parse(value)
        return value

    @property
    def of_target(self) -> Mapping[str, Any]:
        """The settings that say which target a table has, as far as the file names them."""
        return {
            one: getattr(self, one) for one in registry.SETTINGS if one in self.model_fields_set
        }


if TYPE_CHECKING:
    Table = _AnyTarget
else:
    Table = create_model(
        "Table",
        __base__=_AnyTarget,
        __doc__="What is special about some tables.",
        **registry.SETTINGS,
    )
