"""What a pipeline file says of Spark: how the job runs, where changes are read, and what merges them. Pure."""

from __future__ import annotations

import re
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from ingest.config.connection_settings import LOOPBACK, Password
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
    trigger_seconds: float = Field(
        0.5,
        gt=0,
        description="Shortest time from the start of one batch to the start of the next, in seconds. A batch that takes longer is followed at once.",
    )
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
    secret: Password | None = Field(
        None,
        description="What a standalone cluster's master, workers and jobs know one another by (`spark.authenticate.secret` there). YARN and "
        "Kubernetes make one for each job.",
    )
    python: str | None = Field(
        None,
        min_length=1,
        description="The Python of a cluster's machines; else `python3.X`, as the job's own is.",
    )
    packages: Literal["shipped", "installed"] = Field(
        "shipped",
        description="`shipped`: the job brings to a cluster's machines what its tasks import. `installed`: it is there.",
    )
    ship: tuple[str, ...] = Field(
        (),
        description="Further packages that go there, as they are installed here: such as flows of yours import in tasks.",
    )
    conf: dict[str, str] = Field(default_factory=dict, description="Further Spark settings.")
    private_conf: dict[str, Password] = Field(
        default_factory=dict,
        description="Further Spark settings that are secrets, such as `spark.hadoop.fs.azure.account.key.…`, and where they are. They stand in "
        "no command line and on no page of Spark's.",
    )

    @property
    def on_cluster(self) -> bool:
        """Whether tasks run on other machines than the driver."""
        return not self.master.startswith("local")

    @property
    def masters(self) -> list[tuple[str, int]]:
        """Hosts and ports of a standalone cluster's masters, one of which leads; of Kubernetes its server's. YARN's are in Hadoop's files."""
        kind, _, rest = self.master.partition(":")
        if kind not in ("spark", "k8s"):
            return []
        usual = 7077 if kind == "spark" else 80 if rest.startswith("//http:") else 443
        places = [urlsplit(f"//{one.rpartition('//')[2]}") for one in rest.split(",")]
        return [(one.hostname or "", one.port or usual) for one in places]

    @property
    def is_away(self) -> bool:
        """Whether tasks run on other machines, as far as the master says: its own on loopback are this one."""
        return self.on_cluster and not (
            self.masters and all(host in LOOPBACK for host, _ in self.masters)
        )

    @property
    def in_clear(self) -> bool:
        """Whether the file says that nobody has to prove anything to the driver."""
        return self.conf.get("spark.authenticate", "").lower() == "false"

    @model_validator(mode="after")
    def _is_known_to_its_cluster(self) -> Spark:
        if not re.fullmatch(
            r"local(-cluster)?(\[.*\])?|yarn|spark://[^/\s]+|k8s://\S+", self.master
        ):
            raise ValueError(
                "`master` is local[N], spark://host:port[,host:port…], yarn, or k8s://https://host:port"
            )
        if self.secret is not None and not self.master.startswith("spark://"):
            raise ValueError("`secret` is of a standalone cluster: `master: spark://host:port`")
        if self.secret is not None and self.in_clear:
            raise ValueError("`secret` and `spark.authenticate: 'false'` say two things")
        decided = self.secret is not None or self.in_clear
        if self.master.startswith("spark://") and self.is_away and not decided:
            raise ValueError(
                "a cluster beyond this machine needs `secret`, which its master and workers know, too: without it rows and keys go "
                "there in clear, and whoever reaches the driver's port can run code in it. Where the network keeps others out, say "
                "so: `conf: {spark.authenticate: 'false'}`"
            )
        return self
