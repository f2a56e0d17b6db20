"""What Spark shows nowhere stays hidden whatever else a pipeline file has it hide."""

import pytest
import yaml

from ingest.config import pipeline_file
from ingest.job import spark_session
from ingest.lake.delta.commit import sibling
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
