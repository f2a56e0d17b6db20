"""The embedded Kafka Connect: one distributed worker with Debezium, exactly-once source on."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import httpx

from ingest.config.java_properties import as_property
from ingest.config.resources import resource
from ingest.local import artefacts, process
from ingest.local.kafka import java_command


@dataclass(frozen=True)
class Connect:
    """One embedded worker; its settings, each explained, are ``connect/worker.properties``."""

    home: Path
    port: int
    bootstrap_servers: str
    exactly_once: bool = True
    """Source records and offsets in one transaction. Off only to show what ingest does without."""

    @property
    def url(self) -> str:
        """Base of the REST interface (loopback only)."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> process.Child:
        """Write the worker's settings from the template and start it."""
        config = self.home / "connect" / "worker.properties"
        config.parent.mkdir(parents=True, exist_ok=True)
        values = {
            "BOOTSTRAP_SERVERS": self.bootstrap_servers,
            "PORT": str(self.port),
            "PLUGIN_PATH": str(artefacts.debezium_plugin()),
            "SECRETS": str(self.home / "secrets"),
            "EXACTLY_ONCE": "enabled" if self.exactly_once else "disabled",
        }
        template = resource("connect", "worker.properties").read_text(encoding="utf-8")
        filled = re.sub(r"@(\w+)@", lambda found: as_property(values[found.group(1)]), template)
        config.write_text(filled, encoding="utf-8")
        java = java_command("connect", self.home, ("connect",), "768m")
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        return process.start("connect", [*java, main, str(config)], home=self.home, env={})

    def healthy(self) -> str | None:
        """None when the worker lists its connectors (it is in its group), else why not."""
        try:
            answer = httpx.get(f"{self.url}/connectors", timeout=3, trust_env=False)
        except httpx.HTTPError as failure:
            return str(failure)
        return None if answer.status_code == 200 else f"HTTP {answer.status_code}"
