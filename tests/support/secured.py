"""A Kafka that asks for TLS and a login, and a Connect worker behind both, with certificates and passwords made for one test run."""

from __future__ import annotations

import secrets
import ssl
import subprocess
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from ipaddress import ip_address
from pathlib import Path

import httpx
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

from ingest.config.resources import resource
from ingest.local import artefacts, process
from ingest.local.kafka import java_command
from ingest.local.mysql import write_secret

_BROKER = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=CLIENT://127.0.0.1:{kafka},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=CLIENT://127.0.0.1:{kafka}
listener.security.protocol.map=CLIENT:SASL_SSL,CONTROLLER:PLAINTEXT
inter.broker.listener.name=CLIENT
controller.listener.names=CONTROLLER
sasl.enabled.mechanisms=SCRAM-SHA-512
sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512
listener.name.client.scram-sha-512.sasl.jaas.config={login} username="broker" password="{broker}";
listener.name.client.ssl.client.auth=required
ssl.keystore.type=PEM
ssl.keystore.location={home}/pki/server-all.pem
ssl.truststore.type=PEM
ssl.truststore.location={home}/pki/ca.pem
log.dirs={home}/kafka/data
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
group.initial.rebalance.delay.ms=0
message.max.bytes=33554432
replica.fetch.max.bytes=33554432
"""
_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required"
_SLOWEST = 120.0


@dataclass
class Pki:
    """One authority, and what it has signed; all in PEM in one folder."""

    home: Path
    _key: ec.EllipticCurvePrivateKey = field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )

    def __post_init__(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "an authority of a test")])
        self._name = name
        made = self._begun(name, self._key).issuer_name(name)
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        self._ca = made.add_extension(usage, critical=True).sign(self._key, hashes.SHA256())
        self.ca.write_bytes(_pem(self._ca))

    @property
    def ca(self) -> Path:
        return self.home / "ca.pem"

    def sign(self, name: str) -> None:
        """`NAME.pem`, `NAME.key`, `NAME-all.pem` (key and chain) and `NAME.p12` (password `changeit`), good for 127.0.0.1."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = self._begun(subject, key).issuer_name(self._name)
        names = [x509.IPAddress(ip_address("127.0.0.1")), x509.DNSName("localhost")]
        made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
        of_ca = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        certificate = made.add_extension(of_ca, critical=False).sign(self._key, hashes.SHA256())
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        chain = _pem(certificate) + _pem(self._ca)
        (self.home / f"{name}.pem").write_bytes(_pem(certificate))
        (self.home / f"{name}.key").write_bytes(private)
        (self.home / f"{name}-all.pem").write_bytes(private + chain)
        how = serialization.BestAvailableEncryption(b"changeit")
        packed = pkcs12.serialize_key_and_certificates(
            name.encode(), key, certificate, [self._ca], how
        )
        (self.home / f"{name}.p12").write_bytes(packed)

    def _begun(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey
    ) -> x509.CertificateBuilder:
        now = datetime.now(timezone.utc)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=7))
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
        )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


@dataclass
class Secured:
    """Kafka by SASL_SSL with client certificates, and Connect by HTTPS with a login. ``secrets_of_mysql``: a folder from which the worker may
    read, too.
    """

    home: Path
    secrets_of_mysql: Path
    ports: dict[str, int] = field(default_factory=dict)
    children: list[process.Child] = field(default_factory=list)

    def __post_init__(self) -> None:
        for folder in ("secrets", "logs", "kafka", "connect"):
            (self.home / folder).mkdir(parents=True, exist_ok=True)
        self.pki = Pki(self.home / "pki")
        for name in ("server", "client"):
            self.pki.sign(name)
        for name in ("kafka", "connect", "wrong"):
            write_secret(self.secret(name), f"canary-{secrets.token_urlsafe(24)}")
        write_secret(self.secret("keystore"), "changeit")
        self.ports = {name: process.free_port() for name in ("kafka", "controller", "connect")}

    def secret(self, name: str) -> Path:
        return self.home / "secrets" / name

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.ports['kafka']}"

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.ports['connect']}"

    def rest(self) -> httpx.Client:
        password = self.secret("connect").read_text()
        trusted = ssl.create_default_context(cafile=self.pki.ca)
        return httpx.Client(
            base_url=self.url, auth=("ingest", password), verify=trusted, timeout=30
        )

    def start(self) -> None:
        self._broker()
        self._worker()

    def stop(self) -> None:
        for child in reversed(self.children):
            process.stop(child, grace=10)

    def _broker(self) -> None:
        config, broker = self.home / "kafka" / "server.properties", secrets.token_urlsafe(24)
        write_secret(
            config,
            _BROKER.format(home=self.home, broker=broker, login=_LOGIN, **self.ports),
        )
        java = java_command("kafka", self.home, ("kafka",), "512m")
        ingest = self.secret("kafka").read_text()
        users = [
            f"--add-scram=SCRAM-SHA-512=[name={name},password={word}]"
            for name, word in (("broker", broker), ("ingest", ingest))
        ]
        tool = ["kafka.tools.StorageTool", "format", "--cluster-id=AAAAAAAAQACAAAAAAAAAAA"]
        done = subprocess.run(
            [*java, *tool, "-c", str(config), *users], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        self._started("kafka", [*java, "kafka.Kafka", str(config)])

    def _worker(self) -> None:
        word = self.secret("kafka").read_text()
        clients = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": f'{_LOGIN} username="ingest" password="{word}";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.pki.ca),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.pki.home / "client-all.pem"),
        }
        values = {
            "BOOTSTRAP_SERVERS": self.bootstrap_servers,
            "PORT": str(self.ports["connect"]),
            "PLUGIN_PATH": str(artefacts.debezium_plugin()),
            "SECRETS": f"{self.home / 'secrets'},{self.secrets_of_mysql}",
            "EXACTLY_ONCE": "enabled",
        }
        text = resource("connect", "worker.properties").read_text(encoding="utf-8")
        for name, value in values.items():
            text = text.replace(f"@{name}@", value)
        text = text.replace("listeners=http:", "listeners=https:")
        prefixes = ("", "producer.", "consumer.", "admin.")
        lines = [f"{prefix}{key}={value}" for prefix in prefixes for key, value in clients.items()]
        of_rest = {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(self.pki.home / "server.p12"),
            "ssl.keystore.password": "changeit",
            "ssl.key.password": "changeit",
        }
        lines += [f"listeners.https.{key}={value}" for key, value in of_rest.items()]
        extension = "org.apache.kafka.connect.rest.basic.auth.extension"
        lines.append(f"rest.extension.classes={extension}.BasicAuthSecurityRestExtension")
        config = self.home / "connect" / "worker.properties"
        write_secret(config, "\n".join([text, *lines, ""]))
        write_secret(self.secret("users"), f"ingest={self.secret('connect').read_text()}\n")
        login = self.home / "connect" / "login.conf"
        login.write_text(
            f'KafkaConnect {{ {extension}.PropertyFileLoginModule required file="{self.secret("users")}"; }};\n'
        )
        java = java_command("connect", self.home, ("connect", "connect-login"), "768m")
        java[1:1] = [f"-Djava.security.auth.login.config={login}"]
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        self._started("connect", [*java, main, str(config)])
        until = time.monotonic() + _SLOWEST
        while time.monotonic() < until:
            try:
                with self.rest() as rest:
                    if rest.get("/connectors").status_code == 200:
                        return
            except httpx.TransportError:
                pass
            time.sleep(0.2)
        raise AssertionError(f"Connect did not come up: {self.home / 'logs'}")

    def _started(self, part: str, command: list[str]) -> None:
        self.children.append(process.start(part, command, home=self.home, env={}))
