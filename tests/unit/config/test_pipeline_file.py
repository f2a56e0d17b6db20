import json

import pytest

from ingest.config import pipeline_file
from ingest.job import spark_session
from ingest.model.errors import IngestError
from ingest.model.topics import TableId

GOOD = """
name: shop
source:
  mysql: mysql://ingest@127.0.0.1:3307
  password: {env: SHOP_PASSWORD}
  tables: ["shop.*"]
kafka: {bootstrap_servers: "k1:9092"}
connect: {url: "http://connect:8083/"}
lake: {path: /tmp/lake}
"""


def refusal(text: str) -> str:
    with pytest.raises(IngestError) as raised:
        pipeline_file.parse(text, "x.yaml")
    return str(raised.value)


def test_the_example_of_the_design_is_accepted():
    pipeline = pipeline_file.parse(GOOD)
    assert (pipeline.source.host, pipeline.source.port, pipeline.source.user) == (
        "127.0.0.1",
        3307,
        "ingest",
    )
    assert pipeline.connect.url == "http://connect:8083"


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ("sorce: {}", "perhaps `source` is meant"),
        ("spark: {driver_memry: 1g}", "perhaps `driver_memory` is meant"),
        ("spark: {parallel_tables: 0}", "spark.parallel_tables"),
        ("spark: {trigger_seconds: soon}", "spark.trigger_seconds"),
        ("tables: {shop.log: {apend_only: true}}", "perhaps `append_only` is meant"),
        ("tables: {'!shop.log': {append_only: true}}", "excludes"),
        ("tables: {log: {append_only: true}}", "not `database.table`"),
        (
            "flows: {f: {sql: a.sql, inputs: {}, sinks: [{delta: o, kyes: [id]}]}}",
            "`flows.f.sinks.0.kyes` is not a setting; perhaps `keys` is meant",
        ),
        ("lake: {path: /elsewhere}", "line 10, column 1: `lake` stands here for the second time"),
        (
            "tables: {shop.orders: {ddl: {drop_table: pause}}, shop.orders: {append_only: true}}",
            "`shop.orders` stands here for the second time",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place_and_the_nearest_right_key(wrong, expected):
    assert expected in refusal(GOOD + wrong)


def test_a_missing_section_is_named():
    assert "`lake` is required" in refusal(GOOD.replace("lake: {path: /tmp/lake}", ""))


def test_a_password_in_the_url_is_refused_without_repeating_it():
    said = refusal(GOOD.replace("ingest@", "ingest:hunter2@"))
    assert "leave the password out" in said
    assert "hunter2" not in said


def test_a_yaml_typo_is_placed_by_line():
    assert "not valid YAML at line" in refusal("name: shop\nsource: {mysql: 'x\n")


def test_a_password_is_never_in_a_repr(monkeypatch):
    monkeypatch.setenv("SHOP_PASSWORD", "hunter2")
    pipeline = pipeline_file.parse(GOOD)
    assert pipeline.source.password.read().get_secret_value() == "hunter2"
    assert "hunter2" not in repr(pipeline) + repr(pipeline.source.password.read())


def test_a_password_that_is_not_there_says_where_it_was_looked_for(monkeypatch):
    monkeypatch.delenv("SHOP_PASSWORD", raising=False)
    with pytest.raises(IngestError, match="SHOP_PASSWORD"):
        pipeline_file.parse(GOOD).source.password.read()


def test_the_json_schema_describes_every_setting():
    schema = json.loads(json.dumps(pipeline_file.Pipeline.model_json_schema()))
    assert schema["additionalProperties"] is False
    sections = (
        "name source kafka connect lake dedup spark tables flows observe defaults connections"
    )
    assert set(sections.split()) == set(schema["properties"])


def test_settings_cannot_be_changed_after_they_were_checked():
    with pytest.raises(ValueError, match="frozen"):
        pipeline_file.parse(GOOD).name = "other"


def test_what_is_special_about_tables_is_found_by_their_pattern():
    pipeline = pipeline_file.parse(
        GOOD + 'tables: {"shop.log_*": {append_only: true}, "shop.*": {}}'
    )
    assert pipeline.target(TableId("shop", "log_2026"), keyed=False).name == "append_only"
    assert pipeline.target(TableId("shop", "log_2026"), keyed=True).name == "mirror"
    assert pipeline.target(TableId("shop", "orders"), keyed=False).name == "multiset"


def test_of_several_patterns_the_last_that_names_a_setting_of_the_target_counts():
    said = 'tables: {"shop.log_*": {append_only: true}, shop.log_users: {append_only: false}, "shop.*": {ddl: evolve}}'
    pipeline, users = pipeline_file.parse(GOOD + said), TableId("shop", "log_users")
    assert pipeline.target(users, keyed=False).name == "multiset"
    assert pipeline.target(TableId("shop", "log_2026"), keyed=False).name == "append_only"
    assert pipeline.noted({}, users, keyed=False).name == "append_only", "as any pattern made it"
    assert pipeline.noted({"ingest.target": "multiset"}, users, keyed=False).name == "multiset"


def test_what_is_said_of_tables_that_are_not_captured_is_named_with_what_may_be_meant():
    said = "tables: {shop.order: {append_only: true}, 'shop.*': {}, 'else.*': {}}"
    found = pipeline_file.parse(GOOD + said).unmatched([TableId("shop", "orders")])
    assert found == {
        "shop.order": "no table that is captured is called so; perhaps shop.orders is meant",
        "else.*": "no table that is captured is called so",
    }


def test_only_a_checkpoint_on_a_local_disk_gets_its_own_file_manager_and_the_file_has_the_last_word():
    name = next(iter(spark_session.LOCAL_CHECKPOINT))
    pipeline = pipeline_file.parse(GOOD)
    assert spark_session.settings(pipeline) == spark_session.LOCAL_CHECKPOINT
    remote = pipeline_file.parse(GOOD.replace("/tmp/lake", "s3a://b/lake"))
    assert name not in spark_session.settings(remote)
    ours = pipeline_file.parse(GOOD + f"spark: {{conf: {{{name}: x.Y}}}}\n")
    assert spark_session.settings(ours) == {name: "x.Y"}
    assert pipeline.spark.conf == {}


def test_a_job_that_is_to_end_has_java_s_first_compiler_alone_but_the_file_has_the_last_word():
    (name,) = spark_session.SHORT
    assert (
        spark_session.settings(pipeline_file.parse(GOOD), short=True).items()
        >= spark_session.SHORT.items()
    )
    ours = pipeline_file.parse(GOOD + f"spark: {{conf: {{{name}: -Xint}}}}\n")
    assert spark_session.settings(ours, short=True)[name] == "-Xint"


def test_who_names_spark_a_log_store_for_all_file_systems_gets_no_second_one_which_delta_would_refuse():
    assert spark_session.log_store({}) == spark_session.EXCLUSIVE
    assert spark_session.log_store({"spark.delta.logStore.class": "x.Y"}) == {}
