"""A real HDFS for tests: a name node and a data node, processes on loopback, of the jars that Spark comes with and Hadoop's own for servers."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

import httpx
import pyspark

from ingest.local import artefacts, process
from ingest.local.java import java_binary
from tests.support.hive import LOGGING

_NAMES, _DATA = (
    f"org.apache.hadoop.hdfs.server.{name}" for name in ("namenode.NameNode", "datanode.DataNode")
)


@dataclass
class Hdfs:
    """Both run, and the data node is known to the name node."""

    home: Path
    port: int
    page: int
    names: process.Child
    data: process.Child

    @property
    def uri(self) -> str:
        return f"hdfs://127.0.0.1:{self.port}"

    def stop(self) -> None:
        for child in (self.data, self.names):
            process.stop(child, grace=5)

    def stop_names(self) -> None:
        process.stop(self.names, grace=5)

    def start_names(self) -> None:
        """Again, with all files; waits until the data node has come to it."""
        self.names = _started("names", _NAMES, self.home)
        self.await_both()

    def await_both(self) -> None:
        """Raises ``AssertionError`` where one of them has ended, or does not come up."""
        both = (self.names, self.data)
        _until(lambda: _is_dead(both) or _has_data_node(self.page), self.home)
        assert not _is_dead(both), self.home / "logs"


def start(home: Path) -> Hdfs:
    (home / "logs").mkdir(parents=True, exist_ok=True)
    (home / "log4j2.properties").write_text(LOGGING)
    port, page = process.free_port(), process.free_port()
    settings = {
        "fs.defaultFS": f"hdfs://127.0.0.1:{port}",
        "dfs.namenode.name.dir": str(home / "names"),
        "dfs.namenode.http-address": f"127.0.0.1:{page}",
        "dfs.datanode.data.dir": str(home / "data"),
        "dfs.datanode.address": "127.0.0.1:0",
        "dfs.datanode.ipc.address": "127.0.0.1:0",
        "dfs.datanode.http.address": "127.0.0.1:0",
        "dfs.replication": "1",
        "dfs.namenode.safemode.extension": "0",
    }
    said = "".join(
        f"<property><name>{n}</name><value>{v}</value></property>" for n, v in settings.items()
    )
    (home / "hdfs-site.xml").write_text(f"<configuration>{said}</configuration>")
    (home / "core-site.xml").write_text(f"<configuration>{said}</configuration>")
    made = _started("format", f"{_NAMES} -format -nonInteractive", home)
    _until(lambda: process.returncode(made) is not None, home)
    names, data = _started("names", _NAMES, home), _started("data", _DATA, home)
    running = Hdfs(home, port, page, names, data)
    try:
        running.await_both()
    except AssertionError:
        running.stop()
        raise
    return running


def _started(name: str, main: str, home: Path) -> process.Child:
    (servers,) = artefacts.jars("hdfs-server")
    java = [
        *(java_binary(), "-Xmx256m", "-XX:TieredStopAtLevel=1"),
        f"-Dlog4j.configurationFile={home}/log4j2.properties",
        *("-cp", f"{home}:{servers}:{Path(pyspark.__file__).parent}/jars/*"),
    ]
    return process.start(name, [*java, *main.split()], home=home, env={})


def _is_dead(children: tuple[process.Child, ...]) -> bool:
    return any(process.returncode(child) is not None for child in children)


def _has_data_node(page: int) -> bool:
    bean = "Hadoop:service=NameNode,name=FSNamesystemState"
    try:
        said = httpx.get(f"http://127.0.0.1:{page}/jmx", params={"qry": bean}, timeout=2).text
        return bool(json.loads(said)["beans"][0]["NumLiveDataNodes"])
    except (httpx.TransportError, LookupError, ValueError):
        return False


def _until(fact, home: Path) -> None:
    until = time.monotonic() + 90
    while time.monotonic() < until:
        if fact():
            return
        time.sleep(0.1)
    raise AssertionError(f"HDFS did not come up: {home / 'logs'}")
