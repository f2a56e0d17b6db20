"""``kafka.security`` in the words of each client: librdkafka's, and Java's as Spark and a connector take them.

The two know other names for the same, and librdkafka refuses Java's. A connector's settings stand in Connect's REST answers, so
they name where the worker finds the password; Spark's go to its consumers alone, which log a login as ``[hidden]``.
"""

from __future__ import annotations

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
        found["ssl.ca.location"] = security.ca
    if security.keystore:
        found["ssl.certificate.location"] = security.keystore
        found["ssl.key.location"] = security.keystore
    return found


def of_java(kafka: Kafka) -> dict[str, str]:
    """For clients in this machine's JVM. Raises as :func:`of_librdkafka` does."""
    if kafka.security is None:
        return {}
    secret = _password(kafka.security) if kafka.security.by_sasl else ""
    escaped = secret.replace("\\", "\\\\").replace('"', '\\"')
    return _java(kafka.security, escaped, kafka.security.ca, kafka.security.keystore)


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
    said = _java(
        security,
        reference or "",
        files.kafka_ca or security.ca,
        files.kafka_keystore or security.keystore,
    )
    return {f"{prefix}{name}": value for prefix in _OF_DEBEZIUM for name, value in said.items()}


def _java(security: Security, secret: str, ca: str | None, keystore: str | None) -> dict[str, str]:
    found: dict[str, str] = {"security.protocol": security.protocol}
    if security.by_sasl:
        user = (security.user or "").replace("\\", "\\\\").replace('"', '\\"')
        login = f'{_LOGIN[security.mechanism]} required username="{user}" password="{secret}";'
        found |= {"sasl.mechanism": security.mechanism, "sasl.jaas.config": login}
    if ca:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": ca}
    if keystore:
        found |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": keystore}
    return found


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
