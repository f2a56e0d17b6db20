"""What Spark shows nowhere stays hidden whatever else a pipeline file has it hide."""

import subprocess
import sys

import pytest
import yaml

from ingest.config import pipeline_file
from ingest.job import spark_session
from ingest.lake.delta.commit import sibling
from tests.unit.config.test_pipeline_file import GOOD
from tests.unit.config.test_secured import SECURITY, with_

OPTIONS = {
    "kafka.sasl.jaas.config": 'x username="u" password="hunter2";',
    "kafka.ssl.keystore.key": "hunter2",
    "card": "hunter2",
    "fs.secret": "hunter2",
    "subscribe": "topic",
}
CONF = ("spark.sql.redaction.options.regex", "spark.redaction.regex")


@pytest.mark.parametrize("said", ["card", "(?i)CARD|iban", "", "^card$"])
def test_what_a_file_hides_besides_shows_none_of_our_secrets(spark, said):
    text = yaml.safe_load(with_("kafka", security=SECURITY))
    text["spark"] = {"conf": dict.fromkeys(CONF, said)}
    found = spark_session.settings(pipeline_file.parse(yaml.safe_dump(text)))
    session = sibling(spark)
    session.conf.set(CONF[0], found[CONF[0]])
    # The other one is read when Spark starts; options are hidden by either.
    hides = session._jvm.java.util.regex.Pattern.compile(found[CONF[1]])
    conf = session._jsparkSession.sessionState().conf()
    shown = dict(
        session._jvm.scala.jdk.javaapi.CollectionConverters.asJava(
            conf.redactOptions(session._jvm.PythonUtils.toScalaMap(OPTIONS))
        )
    )
    assert "hunter2" not in [text for name, text in shown.items() if name.startswith("kafka.")]
    assert 'password="hunter2"' not in str(shown)
    assert hides.matcher("fs.secret").find()
    assert hides.matcher("session.TOKEN").find()
    if said:
        assert shown["card"] != "hunter2"
        assert hides.matcher("card").find()
    assert shown["subscribe"] == "topic"


def test_what_spark_hides_by_itself_is_what_we_take_it_for(spark):
    of_spark = spark._jvm.java.lang.Class.forName("org.apache.spark.internal.config.package$")
    entry = of_spark.getField("MODULE$").get(None).SECRET_REDACTION_PATTERN()
    assert {CONF[1]: entry.defaultValueString()} == spark_session.SPARK_HIDES


SECRET = "spark.hadoop.fs.s3a.bucket.other.secret.key"
START = f"""
import os, sys
from pathlib import Path
from ingest.config import pipeline_file
from ingest.job import spark_session

pipeline = pipeline_file.load(Path(sys.argv[1]))
spark = spark_session.for_pipeline(pipeline, Path(sys.argv[2]))
needle = "hunter" + "2"  # this program's own command line does not have it
seen = []
for process in Path("/proc").glob("[0-9]*/cmdline"):
    try:
        seen.append(process.read_bytes())
    except OSError:
        pass
java = Path("/proc", str(spark.sparkContext._gateway.proc.pid), "cmdline").read_bytes()
hadoop = spark.sparkContext._jsc.hadoopConfiguration().get({SECRET.removeprefix("spark.hadoop.")!r})
threads = spark.conf.get("spark.sql.shuffle.partitions")
print(b"spark.redaction.regex" in java, any(needle.encode() in one for one in seen), hadoop == needle, threads)
"""


def test_a_setting_that_is_named_by_its_place_comes_to_hadoop_and_stands_in_no_command_line(
    tmp_path,
):
    secret, others = tmp_path / "secret", tmp_path / "threads"
    secret.write_text("hunter2\n")
    others.write_text("3")  # one that we have a value of our own for
    text = yaml.safe_load(GOOD)
    text["lake"] = {"path": str(tmp_path / "lake")}
    text["spark"] = {
        "master": "local[1]",
        "private_conf": {
            SECRET: {"file": str(secret)},
            "spark.sql.shuffle.partitions": {"file": str(others)},
        },
    }
    (tmp_path / "shop.yaml").write_text(yaml.safe_dump(text))
    started = subprocess.run(
        [sys.executable, "-c", START, tmp_path / "shop.yaml", tmp_path / "spark.log"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert started.stdout.split() == ["True", "False", "True", "3"], started.stderr
    assert "hunter2" not in (tmp_path / "spark.log").read_text()
