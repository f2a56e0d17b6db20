"""Spark's settings that stand in no command line, log or page of Spark's: passwords and keys."""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ingest.config.connection_settings import Password
from ingest.config.java_properties import as_property
from ingest.config.spark_settings import Spark
from ingest.model.errors import IngestError


def read(spark: Spark) -> dict[str, str]:
    """Those of the pipeline file. Raises :class:`IngestError` where one is not there, or not as Spark would read it."""
    return {name: _read(name, where) for name, where in spark.private_conf.items()}


def _read(name: str, where: Password) -> str:
    said = where.read(f"Spark's setting {name}", f"spark.private_conf.{name}").get_secret_value()
    if said.strip() != said:
        raise IngestError(
            "E-CONFIG-PASSWORD",
            f"Spark's setting {name} begins or ends with a blank, which Spark takes away from what it reads in a file.",
            means="Nothing was started.",
            remedy=f"correct what `spark.private_conf.{name}` names.",
        )
    return said


def hidden(spark: Spark) -> str:
    """A pattern of their names, as Spark's pages have them: it gives those of Hadoop and Hive to these without its own prefix."""
    names = (
        name.removeprefix("spark.hadoop.").replace("spark.hive.", "hive.", 1)
        for name in spark.private_conf
    )
    return "|".join(map(re.escape, names))


@contextmanager
def told(settings: Mapping[str, str]) -> Iterator[None]:
    """By a file of this user's alone, for as long as the JVM takes to read it: a setting of a builder's stands in a command line, which all users
    of a machine see, and the environment goes on to whatever is started.
    """
    if not settings:
        yield
        return
    before = os.environ.get("PYSPARK_SUBMIT_ARGS")
    with tempfile.TemporaryDirectory() as folder:  # mode 0700
        file = Path(folder, "spark.properties")
        lines = (f"{name}={as_property(text)}\n" for name, text in settings.items())
        file.write_text("".join(lines), encoding="ascii")
        # Else such a file would take the place of the machine's spark-defaults.conf.
        said = f"--properties-file {shlex.quote(str(file))} --load-spark-defaults pyspark-shell"
        words = (before or "").removesuffix("pyspark-shell")
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"{words} {said}".strip()
        try:
            yield
        finally:
            if before is None:
                del os.environ["PYSPARK_SUBMIT_ARGS"]
            else:
                os.environ["PYSPARK_SUBMIT_ARGS"] = before
