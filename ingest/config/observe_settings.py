"""What a pipeline file says of what a run tells machines. Pure."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from ingest.config.table_settings import Settings

Form = Literal["off", "text", "json"]


class Observe(Settings):
    """What a run tells machines. Its sentences for people are the same with all of these."""

    log: Form = Field(
        "off",
        description="Events for machines, one a line, in a file beside Spark's log: `json`, `text` "
        "(`key=value`), or `off`. Never a value of a row.",
    )
    metrics_port: int | None = Field(
        None,
        ge=1,
        le=65535,
        description="Port of a page of metrics for Prometheus; none when absent.",
    )
    metrics_address: str = Field(
        "127.0.0.1",
        min_length=1,
        description="Address of that page. It asks for no password: whoever reaches it reads the names of "
        "tables and how much changes in them.",
    )

    @field_validator("log", mode="before")
    @classmethod
    def _off_is_a_word(cls, value: object) -> object:
        return "off" if value is False else value  # what YAML 1.1 makes of `log: off`
