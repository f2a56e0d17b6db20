"""``kafka.security`` in the words of each client: librdkafka's, and Java's as Spark and a connector take them.

The two know other names for the same, and librdkafka refuses Java's. A connector's settings stand in Connect's REST answers, so
they name where the worker finds the password; Spark's go to its consumers alone, which log a login as ``[hidden]``.
Certificates go to our clients and Spark's as they are, not by a path, since tasks run on other machines, too.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ingest.config import pem
from ingest.config.connection_settings import Password
from ingest.config.kafka_settings import Kafka, Security
from ingest.config.pipeline_file import Pipeline
from ingest.model.errors import IngestError

_OF_DEBEZIUM = (
    "schema.history.internal.producer.",
    "schema.history.internal.consumer.",
    "signal.consumer.",
)
"""Before settings of the clients that Debezium makes itself; the others are the worker's."""

_LOGIN = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}

_OF_PASSWORD = ("Kafka's password", "kafka.security.password")

HIDDEN = "(?i)url|sasl[.]jaas[.]config|ssl[.]keystore[.]key|password"
"""Options of sources and sinks that Spark shows nowhere, its plans included (``spark.sql.redaction.options.regex``)."""


def of_librdkafka(kafka: Kafka) -> dict[str, str]:
    """Raises :class:`IngestError` where the password is not there."""
    security = kafka.security
    if security is None:
        return {}
    found: dict[str, str] = {"security.protocol": security.protocol}
    if security.by_sasl:
        found["sasl.mechanism"] = security.mechanism
        found["sasl.username"] = security.user or ""
        found["sasl.password"] = _password(security)
    if security.ca:
        found["ssl.ca.pem"] = _pem(security.ca, "ca", pem.certificates)
    if security.keystore:
        found["ssl.certificate.pem"] = _pem(security.keystore, "keystore", pem.certificates)
        found["ssl.key.pem"] = _pem(security.keystore, "keystore", pem.private_keys)
    return found


def of_java(kafka: Kafka) -> dict[str, str]:
    """For Spark's clients, in the driver's JVM and the executors'. Raises as :func:`of_librdkafka` does."""
    security = kafka.security
    if security is None:
        return {}
    secret = _password(security) if security.by_sasl else ""
    found = _login(security, secret.replace("\\", "\\\\").replace('"', '\\"'))
    if security.ca:
        found["ssl.truststore.type"] = "PEM"
        found["ssl.truststore.certificates"] = _pem(security.ca, "ca", pem.certificates)
    if security.keystore:
        found["ssl.keystore.type"] = "PEM"
        found["ssl.keystore.key"] = _pem(security.keystore, "keystore", pem.private_keys)
        found["ssl.keystore.certificate.chain"] = _pem(
            security.keystore, "keystore", pem.certificates
        )
    return found


def of_debezium(pipeline: Pipeline) -> dict[str, str]:
    """For the clients that a connector makes in the worker, with references that the worker resolves."""
    security, connect = pipeline.kafka.security, pipeline.connect
    if security is None:
        return {}
    reference = connect.kafka_password_reference
    if reference is None and security.password is not None:
        reference = security.password.reference
        security.password.refuse_other_to_worker(*_OF_PASSWORD)
        _refuse_unreferable(_password(security))
    files = connect.files
    said = _login(security, reference or "")
    if ca := files.kafka_ca or security.ca:
        said |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": ca}
    if keystore := files.kafka_keystore or security.keystore:
        said |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": keystore}
    return {f"{prefix}{name}": value for prefix in _OF_DEBEZIUM for name, value in said.items()}


def _login(security: Security, secret: str) -> dict[str, str]:
    """Without certificates. ``secret``: as it stands between quotes."""
    found: dict[str, str] = {"security.protocol": security.protocol}
    if security.by_sasl:
        user = (security.user or "").replace("\\", "\\\\").replace('"', '\\"')
        login = f'{_LOGIN[security.mechanism]} required username="{user}" password="{secret}";'
        found |= {"sasl.mechanism": security.mechanism, "sasl.jaas.config": login}
    return found


def _pem(path: str, setting: str, of: Callable[[str], str]) -> str:
    """What a file has of one kind. Raises :class:`IngestError` where it has none."""
    try:
        found = of(Path(path).read_text(encoding="utf-8", errors="replace"))
    except OSError as failure:
        why = failure.strerror or str(failure)
    else:
        if found:
            return found
        why = "it lacks a private key, or a certificate, in PEM"
    raise IngestError(
        "E-KAFKA-CERTIFICATE",
        f"{path}, which `kafka.security.{setting}` names, cannot be used: {why}.",
        means="Nothing was started.",
        remedy="correct it; such a file holds blocks that begin with `-----BEGIN CERTIFICATE-----`, and of `keystore` one that begins "
        "with `-----BEGIN PRIVATE KEY-----`.",
    )


def _password(security: Security) -> str:
    assert isinstance(security.password, Password)
    return security.password.read(*_OF_PASSWORD).get_secret_value()


def _refuse_unreferable(secret: str) -> None:
    """The worker puts it between quotes as it stands."""
    if {'"', "\\", "\n", "\r"} & set(secret):
        raise IngestError(
            "E-CONFIG-PASSWORD",
            "Kafka's password has a quote, a backslash or a line feed in it, which the Connect worker cannot put into a login.",
            means="The connector was not created or changed.",
            remedy="give the user another password.",
        )
