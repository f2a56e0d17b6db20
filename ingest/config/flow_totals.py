"""What a pipeline file says of totals that stay right while rows change. Pure."""

from __future__ import annotations

from pydantic import Field, field_validator

from ingest.config.table_settings import Settings

HELD = "__"
"""What columns begin with that totals keep for themselves."""


class Totals(Settings):
    """A `GROUP BY` over the rows that the flow's function brings, corrected by each change of the tables."""

    by: tuple[str, ...] = Field(min_length=1, description="Columns of these rows.")
    values: dict[str, str] = Field(
        min_length=1,
        description="By name, an aggregate in SQL: `sum(amount)`. Those made of `count(…)`, `sum(…)` and `avg(…)` of exact numbers alone are "
        "corrected by what has changed; of all others, such as `max(…)` and `count(DISTINCT …)`, each group that was touched is computed again.",
    )

    @field_validator("by")
    @classmethod
    def _are_told_apart(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len({one.lower() for one in value}) < len(value):
            raise ValueError("a column is named twice")
        if any(one.startswith(HELD) for one in value):
            raise ValueError(f"no column begins with `{HELD}`")
        return value

    @field_validator("values")
    @classmethod
    def _are_columns(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if name.startswith(HELD) or not name:
                raise ValueError(f"{name!r}: a column's name, which does not begin with `{HELD}`")
        return value
