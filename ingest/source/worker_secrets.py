"""What a connector is told of passwords and certificates: where its worker finds them, never what they are."""

from __future__ import annotations

from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from ingest.config.pipeline_file import Pipeline
from ingest.kafka import client_settings
from ingest.model.errors import IngestError

TRUSTSTORE_PASSWORD = "changeit"  # noqa: S105 - Java's own for what holds no secret
_SSL = "database.ssl."


def password_reference(pipeline: Pipeline) -> str:
    """How the worker reads MySQL's password: the pipeline file says, or from ``source.password``. Raises :class:`IngestError`."""
    if pipeline.connect.password_reference:
        return pipeline.connect.password_reference
    pipeline.source.password.refuse_other_to_worker("MySQL's password", "source.password")
    return pipeline.source.password.reference


def settings(pipeline: Pipeline) -> dict[str, str]:
    """Of a connector, for TLS to MySQL and for Kafka's security. Raises :class:`IngestError`."""
    return {**client_settings.of_debezium(pipeline), **_of_mysql(pipeline)}


def _of_mysql(pipeline: Pipeline) -> dict[str, str]:
    tls, connect = pipeline.source.tls, pipeline.connect
    if tls is None:
        return {}
    store = connect.files.mysql_truststore
    if tls.certificate and f"{_SSL}keystore" not in connect.settings:
        raise IngestError(
            "E-CONNECT-KEYSTORE",
            "`source.tls` names a certificate of ours, and Debezium reads that from a keystore of Java's, of which nothing is said.",
            means="The connector was not created or changed: MySQL would not let it in.",
            remedy="`openssl pkcs12 -export -in CERTIFICATE -inkey KEY -out PATH` makes one; put it where the Connect worker can read it, and name it "
            "by `connect: {settings: {database.ssl.keystore: PATH, database.ssl.keystore.password: '${dir:/folder:file}'}}`.",
        )
    if store is None and f"{_SSL}truststore" not in connect.settings:
        raise IngestError(
            "E-CONNECT-TRUSTSTORE",
            "`source.tls` says who has signed MySQL's certificate, and Debezium reads that from a truststore of Java's, of which "
            "nothing is said.",
            means="The connector was not created or changed: it would encrypt, and talk to whoever answers.",
            remedy="`ingest connector truststore FILE -o PATH` makes one; put it where the Connect worker can read it, and name it by "
            "`connect: {files: {mysql_truststore: PATH}}`.",
        )
    found = {f"{_SSL}mode": f"verify_{tls.verify}"}
    if store is not None:
        found |= {f"{_SSL}truststore": store, f"{_SSL}truststore.password": TRUSTSTORE_PASSWORD}
    return found


def write_truststore(pipeline: Pipeline, output: Path) -> int:
    """The certificates of ``source.tls.ca`` as a truststore of Java's (PKCS12); returns how many. Raises :class:`IngestError`."""
    if pipeline.source.tls is None:
        raise IngestError(
            "E-CONNECT-TRUSTSTORE",
            "The pipeline file names no certificate to put into a truststore.",
            remedy="name it by `source: {tls: {ca: FILE}}`.",
        )
    ca = Path(pipeline.source.tls.ca)
    try:
        certificates = x509.load_pem_x509_certificates(ca.read_bytes())
        entries = [
            pkcs12.PKCS12Certificate(one, f"ca-{number}".encode())
            for number, one in enumerate(certificates)
        ]
        how = serialization.BestAvailableEncryption(TRUSTSTORE_PASSWORD.encode())
        output.write_bytes(pkcs12.serialize_java_truststore(entries, how))
    except OSError as failure:
        raise IngestError(
            "E-CONNECT-TRUSTSTORE",
            f"{failure.filename} cannot be read or written: {failure.strerror}.",
            remedy="correct `source.tls.ca` or `-o`.",
        ) from None
    except ValueError:
        raise IngestError(
            "E-CONNECT-TRUSTSTORE",
            f"{ca} holds no certificate in PEM.",
            remedy="correct `source.tls.ca`; such a file begins with `-----BEGIN CERTIFICATE-----`.",
        ) from None
    return len(entries)
