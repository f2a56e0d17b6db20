"""A real Hive metastore for tests, of the jars that Spark comes with: on loopback, its tables in an embedded Derby."""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass
from pathlib import Path

import pyspark

from ingest.local import process
from ingest.local.java import java_binary

LOGGING = """\
status = error
rootLogger.level = info
rootLogger.appenderRef.c.ref = c
appender.c.type = Console
appender.c.name = c
appender.c.layout.type = PatternLayout
appender.c.layout.pattern = %d %p %c{1} %m%n
"""


@dataclass(frozen=True)
class Hive:
    home: Path
    port: int
    child: process.Child

    @property
    def uri(self) -> str:
        return f"thrift://127.0.0.1:{self.port}"

    def stop(self) -> None:
        process.stop(self.child, grace=5)


def start(home: Path) -> Hive:
    (home / "logs").mkdir(parents=True, exist_ok=True)
    (home / "log4j2.properties").write_text(LOGGING)
    port = process.free_port()
    settings = {
        "hive.async.log.enabled": "false",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": str(home / "warehouse"),
        "datanucleus.schema.autoCreateAll": "true",
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={home}/db;create=true",
    }
    command = [
        *(java_binary(), "-Xmx256m", "-XX:TieredStopAtLevel=1"),
        "-Dlog4j2.contextSelector=org.apache.logging.log4j.core.selector.ClassLoaderContextSelector",
        f"-Dlog4j.configurationFile={home}/log4j2.properties",
        f"-Dderby.stream.error.file={home}/logs/derby.log",
        *("-cp", f"{Path(pyspark.__file__).parent}/jars/*"),
        *("org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port)),
    ]
    command += [w for name, value in settings.items() for w in ("--hiveconf", f"{name}={value}")]
    child = process.start("hive", command, home=home, env={})
    until = time.monotonic() + 90
    while time.monotonic() < until and process.returncode(child) is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return Hive(home, port, child)
    process.stop(child, grace=1)
    raise AssertionError(f"the metastore did not come up: {home / 'logs' / 'hive.out'}")
