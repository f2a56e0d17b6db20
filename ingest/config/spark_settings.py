"""What a pipeline file says of Spark: how the job runs, where changes are read, and what merges them. Pure."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ingest.config.table_settings import Settings

Lane = Literal["auto", "spark", "driver", "columns"]
"""Where plain changes are read, as a pipeline file names it; ``auto``: by facts (``kafka.lane``)."""

Wanted = Literal["auto", "spark", "delta-rs", "deletion-vectors"]
"""How a table's rows are merged, as a pipeline file names it; ``auto``: by facts (``engine_choice``)."""


class DriverMax(Settings):
    """What the driver's lane takes of a batch at most, where `lane` is `auto`."""

    changes: int = Field(10_000, ge=0, description="Kafka records.")
    megabytes: int = Field(8, ge=0, description="Of their rows, as far as the batches before tell.")


class Spark(Settings):
    """How the job runs. The defaults are for one small machine; any master works."""

    master: str = Field("local[*]", description="Spark master URL.")
    driver_memory: str = Field("2g", description="Heap of the driver's JVM.")
    trigger_seconds: float = Field(0.5, gt=0, description="Pause between batches, in seconds.")
    max_changes_per_batch: int = Field(200_000, ge=1, description="Kafka records per batch.")
    max_megabytes_per_batch: int = Field(
        64,
        ge=1,
        description="Of their rows: a batch ends once it has so many in memory. Of what Spark reads, which goes to its disk, "
        "it is messages, as large as those of the batches before.",
    )
    lane: Lane = Field(
        "auto",
        description="Where plain changes are read. `auto`: in the driver what is small and fresh, on one machine; in Spark's tasks "
        "all else. `spark`, `driver`: there, whatever it is. `columns`: by Spark's own columns, which read what is not plain, too, and are "
        "many times slower.",
    )
    driver_max: DriverMax = Field(default_factory=lambda: DriverMax.model_validate({}))
    parallel_tables: int = Field(
        2, ge=1, le=64, description="Tables of a batch that are committed side by side."
    )
    merge_engine: Wanted = Field(
        "auto",
        description="What makes the MERGEs. `auto`: delta-rs in the driver's own process for what one machine "
        "holds, which is much faster, and Spark for what is large, in HDFS, or needs a table "
        "feature that delta-rs does not write; in large files it marks rows as deleted (deletion vectors) instead "
        "of writing the files anew, but for `profile: compat`. `spark`, `delta-rs`, `deletion-vectors`: that one, "
        "where it can.",
    )
    jars: tuple[str, ...] = Field(
        (), description="Further jar files, beside ours, for the driver and a cluster's executors."
    )
    conf: dict[str, str] = Field(default_factory=dict, description="Further Spark settings.")
