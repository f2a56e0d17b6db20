"""Which of a connector's settings a pipeline file may add. Pure.

Closed are those on which depends what a change means, which changes come, in which order, and whether each comes once: values that are
equal to ours may be named all the same.
"""

from __future__ import annotations

import re

REFERENCE = re.compile(r"\$\{[^{}:]+:[^{}]+\}")
"""As a worker reads a secret: ``${dir:/folder:file}``, ``${env:NAME}``, ``${file:/file:key}``."""

_CLOSED = re.compile(
    r"name|connector\.class|tasks\.max|topic\..*|read\.only|transforms.*|predicates.*|converters|post\.processors.*"
    r"|(key|value|header)\.converter.*|.*\.handling\.mode|.*\.adjustment\.mode|time\.precision\.mode|enable\.time\.adjuster"
    r"|skipped\.operations|tombstones\.on\.delete|include\.schema\.changes|sourceinfo\..*|table\..*|column\..*|message\.key\.columns"
    r"|gtid\..*|signal\.enabled\.channels|signal\.kafka\..*|notification\..*|provide\.transaction\.metadata|errors\.tolerance"
    r"|exactly\.once\.support|incremental\.snapshot\.allow\.schema\.changes|transaction\.boundary.*|offsets\.storage\..*|(database|driver|(legacy\.)?snapshot|schema\.history\.internal)(\..*)?"
    r"|(producer|consumer|admin)\.override\..*|.*bootstrap\.servers"
)
_OPEN = re.compile(
    r"topic\.creation\.default\.(replication\.factor|retention\.(ms|bytes)|max\.message\.bytes|compression\.type|segment\..*|min\.insync\.replicas)"
    r"|topic\.cache\.size|signal\.poll\.interval\.ms|database\.ssl\.(key|trust)store(\.password)?|database\.ssl\.mode|database\.query\.timeout\.ms"
    r"|driver\.(connectTimeout|socketTimeout|tcpKeepAlive)|snapshot\.(fetch\.size|delay\.ms|lock\.timeout\.ms)"
    r"|snapshot\.select\.statement\.overrides.*|snapshot\.tables\.order\.by\.row\.count"
    r"|schema\.history\.internal\.(kafka\.(recovery\..*|query\.timeout\.ms|create\.timeout\.ms)|(producer|consumer)\.(?!.*bootstrap).*)"
    r"|producer\.override\.(max\.request\.size|buffer\.memory|linger\.ms|batch\.size|compression\.type|max\.block\.ms)"
    r"|producer\.override\.(delivery|request)\.timeout\.ms"
)
_SECRET = re.compile(r"(?i).*(password|passphrase|secret|jaas\.config|keystore\.key)$")
_IN_LOGIN = re.compile(r'(?i)password\s*=\s*"([^"]*)"')


OURS = {
    "snapshot.mode": "initial",
    "skipped.operations": "none",
    "tombstones.on.delete": "false",
    "binary.handling.mode": "base64",
    "decimal.handling.mode": "string",
    "time.precision.mode": "microseconds",
    "include.schema.changes": "true",
    "enable.time.adjuster": "false",
    "tasks.max": "1",
    "snapshot.max.threads": "1",
    "incremental.snapshot.allow.schema.changes": "true",
}
"""Of the closed ones those that people name most; as ``connect/mysql-connector.yaml`` has them, which a test holds."""


def refusal(name: str, value: str) -> str | None:
    """Why a setting cannot be taken; None where it can."""
    closed = _CLOSED.fullmatch(name) and not _OPEN.fullmatch(name)
    if name == "snapshot.max.threads" and value != OURS[name]:
        return (
            f"with `{name}` Debezium 3.6.1 reads a table's rows as of several moments, so that rows of a table without a key come "
            "twice, and leaves out rows where an ENUM or SET is of the key; leave it away (`source.first_rows: in_chunks` is "
            "for tables whose first reading takes hours)"
        )
    if closed and OURS.get(name) != value:
        return f"`{name}` is what the meaning, the order or the number of changes depends on, and not to be changed"
    if _SECRET.fullmatch(name) and not _is_referred(name, value):
        return f"`{name}` would stand in Connect's answers; say how the worker reads it, such as `${{dir:/folder:file}}`"
    if name == "database.ssl.truststore" and not value:
        return f"`{name}` is empty"
    return None


def _is_referred(name: str, value: str) -> bool:
    if not name.endswith("jaas.config"):
        return REFERENCE.fullmatch(value) is not None
    said = _IN_LOGIN.findall(value)
    return bool(said) and all(REFERENCE.fullmatch(one) for one in said)
