"""Which settings of Spark, Hadoop's clients and Hive's hold a secret, and which can be told to Spark by a file of its own. Pure.

Names are those of Spark 4.2, Hadoop 3.5 (S3A, ABFS, GCS, WebHDFS) and Hive 2.3, as in their jars and documentation.
"""

from __future__ import annotations

import re

_SECRET = re.compile(
    r"(?i)(?!spark\.kubernetes\.(driver|executor)\.secret(KeyRef|s)\.)"  # these name a Secret of Kubernetes'
    r".*(secret|password|[._]credential|(secret|access|encryption|account|session|client-provided|api)[._-]?key|private[._-]key"
    r"|(?<!delegation\.)token)"
    r"(\.[a-z0-9.-]+\.(dfs|blob)\..+)?"  # Azure's name the account behind it
)
_REFERENCE = re.compile(r"|arn:.*|\$\{env:[^}]*\}")
"""Values that are no secret: nothing, the name of a key that AWS keeps, and what Spark itself looks up in the environment."""

_BY_ARGUMENTS = re.compile(
    r".*(JavaOptions|extraClassPath|extraLibraryPath)|spark\.(driver|network|rpc|authenticate)(\..*)?|spark\.(master|app\.name|archives|jars(\..*)?)"
    r"|spark\.executorEnv\.PYTHONPATH|spark\.(sql\.)?redaction\..*|spark\.delta\.logStore\..*"
)
"""Settings that Spark makes a command line of, wherever it has them from, or that the job decides by."""

_NAME = re.compile(r"spark\.[!-9;<>-~]+")
"""As a file of properties has it without escapes. Spark takes no others from one."""


def in_plain(setting: str, value: str, places: str) -> str | None:
    """Why a setting must not be given so; None where it may. ``places``: the setting that says where secrets are."""
    if _REFERENCE.fullmatch(value) or not _SECRET.fullmatch(setting):
        return None
    named = setting
    if places.startswith("spark.") and not setting.startswith("spark."):
        named = f"spark.hadoop.{setting}"
    return (
        f"`{setting}` is a secret, which would stand in this file and in what is made of it; "
        f"say where it is: `{places}: {{{named}: {{file: secrets/…}}}}`"
    )


def by_place(setting: str) -> str | None:
    """Why Spark cannot be told a setting by a file of its own; None where it can."""
    if not setting.startswith("spark."):
        return f"`{setting}`: Spark takes its own alone so; one of Hadoop's is `spark.hadoop.{setting}`"
    if not _NAME.fullmatch(setting):
        return f"`{setting}` has letters that no setting of Spark's has"
    if _BY_ARGUMENTS.fullmatch(setting):
        return f"`{setting}` is what Spark makes a command line of, or the job decides by: it hides nothing; use `spark.conf`"
    return None
