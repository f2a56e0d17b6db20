"""Secrets of Spark's settings and of Hive's client: said by where they are, hidden, and refused in plain."""

import re

import pytest
import yaml

from ingest.config import pipeline_file
from ingest.job import private_settings, spark_session
from ingest.lake import metastore
from ingest.model.errors import IngestError
from tests.unit.config.test_pipeline_file import GOOD, refusal
from tests.unit.config.test_secured import S3A, with_

AZURE = "mine.dfs.core.windows.net"
SECRETS = [
    f"{S3A}.bucket.other.secret.key",
    f"{S3A}.bucket.other.access.key",
    f"{S3A}.encryption.key",
    f"{S3A}.server-side-encryption.key",
    f"spark.hadoop.fs.azure.account.key.{AZURE}",
    "spark.hadoop.fs.azure.account.key.mine.z01.dfs.storage.azure.net",
    f"spark.hadoop.fs.azure.account.oauth2.client.secret.{AZURE}",
    f"spark.hadoop.fs.azure.sas.fixed.token.box.{AZURE}",
    f"spark.hadoop.fs.azure.encryption.encoded.client-provided-key.{AZURE}",
    "spark.hadoop.fs.gs.auth.service.account.private.key",
    "spark.hadoop.fs.gs.auth.refresh.token",
    "spark.hadoop.javax.jdo.option.ConnectionPassword",
    "spark.hive.metastore.truststore.password",
    "spark.ssl.ui.keyStorePassword",
    "spark.sql.catalog.unity.token",
    "spark.executorEnv.VENDOR_API_KEY",
]


@pytest.mark.parametrize("conf", SECRETS)
@pytest.mark.parametrize("path", ["/lake", "s3a://a.b/l"])
def test_a_secret_of_spark_s_settings_is_said_by_where_it_is(conf, path, monkeypatch):
    monkeypatch.setenv("MINE", "hunter2")
    said = refusal(with_("lake", path=path) + f"spark: {{conf: {{{conf}: hunter2}}}}\n")
    assert f"spark.private_conf: {{{conf}: {{file: secrets/…}}}}" in said
    assert "hunter2" not in said
    text = with_("lake", path=path) + f"spark: {{private_conf: {{{conf}: {{env: MINE}}}}}}\n"
    pipeline = pipeline_file.parse(text)
    assert private_settings.read(pipeline.spark) == {conf: "hunter2"}
    settings = spark_session.settings(pipeline)
    assert "hunter2" not in repr((pipeline, settings))
    hidden = re.compile(settings["spark.redaction.regex"])
    of_hadoop = conf.removeprefix("spark.hadoop.").replace("spark.hive.", "hive.")
    assert hidden.search(conf)
    assert hidden.search(of_hadoop), "as Spark's page of its environment calls it"


@pytest.mark.parametrize(
    ("conf", "value"),
    [
        (f"{S3A}.encryption.key", "arn:aws:kms:eu-central-1:1:key/1"),
        ("spark.ssl.ui.keyStorePassword", "${env:PASS}"),
        ("spark.ssl.ui.keyStorePassword", ""),
        ("spark.kubernetes.executor.secretKeyRef.AWS_SECRET_ACCESS_KEY", "creds:secret"),
        ("spark.kubernetes.driver.secrets.spark-secret", "/etc/secrets"),
        ("spark.kubernetes.authenticate.submission.oauthTokenFile", "/etc/token"),
        ("spark.hadoop.fs.azure.enable.delegation.token", "true"),
        ("spark.hadoop.hadoop.security.credential.provider.path", "jceks://hdfs/keys"),
    ],
)
def test_what_names_a_secret_that_is_elsewhere_is_none(conf, value):
    text = yaml.safe_load(with_("lake", path="/lake")) | {"spark": {"conf": {conf: value}}}
    assert pipeline_file.parse(yaml.safe_dump(text)).spark.conf == {conf: value}


@pytest.mark.parametrize(
    ("conf", "why"),
    [
        ("fs.azure.account.key.a", "is `spark.hadoop.fs.azure.account.key.a`"),
        ("spark.ü", "letters"),
        ('"spark.a b"', "letters"),
        ("spark.driver.extraJavaOptions", "command line"),
        ("spark.executor.defaultJavaOptions", "command line"),
        ("spark.authenticate", "command line"),
        ("spark.delta.logStore.class", "decides"),
        ("spark.redaction.regex", "hides nothing"),
        ("spark.authenticate.secret", "use `spark.secret`"),
    ],
)
def test_what_would_not_be_hidden_is_not_taken_for_a_secret(conf, why):
    said = refusal(with_("lake", path="/l") + f"spark: {{private_conf: {{{conf}: {{env: M}}}}}}\n")
    assert why in said


def test_where_a_lake_is_cannot_be_said_privately_either():
    conf = f"{{{S3A}.secret.key: {{env: M}}}}"
    said = refusal(with_("lake", path="s3a://a.b/l") + f"spark: {{private_conf: {conf}}}\n")
    assert "lake.storage" in said


def test_a_setting_has_one_place():
    name = "spark.mine"
    both = f"spark: {{conf: {{{name}: a}}, private_conf: {{{name}: {{env: M}}}}}}\n"
    assert f"`{name}` is in both" in refusal(GOOD + both)


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ("{fil: a}", "perhaps `file` is meant"),
        ("{value: hunter2}", "is not a setting"),
        ("{}", "exactly one of"),
        ("hunter2", "valid dictionary"),
    ],
)
def test_a_place_that_is_none_is_refused_and_not_shown(wrong, expected):
    for text in (
        f"spark: {{private_conf: {{{SECRETS[0]}: {wrong}}}}}\n",
        f"spark: {{conf: {{{SECRETS[0]}: {{value: hunter2}}}}, private_conf: {{a: {wrong}}}}}\n",
    ):
        said = refusal(GOOD + text)
        assert expected in said
        assert "hunter2" not in said


def test_a_secret_that_is_not_there_is_said_by_its_setting(monkeypatch, tmp_path):
    monkeypatch.delenv("MINE", raising=False)
    (tmp_path / "blank").write_text("hunter2 \n")
    for place, expected in (
        ({"env": "MINE"}, f"spark.private_conf.{SECRETS[0]}: {{file: …}}"),
        ({"file": str(tmp_path / "no")}, f"spark.private_conf.{SECRETS[0]}"),
        ({"file": str(tmp_path / "blank")}, "begins or ends with a blank"),
    ):
        text = yaml.safe_load(GOOD) | {"spark": {"private_conf": {SECRETS[0]: place}}}
        with pytest.raises(IngestError) as failure:
            private_settings.read(pipeline_file.parse(yaml.safe_dump(text)).spark)
        assert expected in f"{failure.value} {failure.value.remedy}"
        assert "hunter2" not in str(failure.value)


def test_a_secret_of_hive_s_client_is_said_by_where_it_is(monkeypatch):
    monkeypatch.setenv("MINE", "hunter2")
    name, place = "hive.metastore.truststore.password", "thrift://localhost:1"
    plain = {"metastore": place, "settings": {name: "hunter2"}}
    said = refusal(with_("lake", path="/lake", catalog=plain))
    assert f"lake.catalog.private_settings: {{{name}: {{file: secrets/…}}}}" in said
    assert "hunter2" not in said
    by_name = {
        "metastore": place,
        "settings": {"a": "b"},
        "private_settings": {name: {"env": "MINE"}},
    }
    catalog = pipeline_file.parse(with_("lake", path="/lake", catalog=by_name)).lake.catalog
    assert metastore._said(catalog) == {name: "hunter2", "a": "b"}
    monkeypatch.delenv("MINE")
    with pytest.raises(metastore.CatalogError, match=rf"not set \(`.*{re.escape(name)}`\)$"):
        metastore._said(catalog)
