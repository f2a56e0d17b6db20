"""What a pipeline file may say of flows, and what it is told where it says something else."""

import pytest

from ingest.config import pipeline_file
from ingest.model.errors import IngestError
from ingest.testing.lake import pipeline_at

INPUT = {"change_log": "shop.orders"}
GOOD = {"sql": "a.sql", "inputs": {"orders": INPUT}, "sinks": [{"delta": "marts/out"}]}


def flow(tmp_path, name="revenue", **settings):
    return pipeline_at(tmp_path, flows={name: {**GOOD, **settings}}).flows[name]


def refusal(tmp_path, name="revenue", **settings):
    with pytest.raises(IngestError) as refused:
        flow(tmp_path, name, **settings)
    return str(refused.value)


def test_the_least_that_is_said_of_a_flow(tmp_path):
    found = flow(tmp_path)
    assert (found.mode, found.trigger, found.on_change, found.keep_late) == (
        "append", "10 seconds", "refuse", True
    )  # fmt: skip
    assert found.inputs["orders"].place == "change log shop.orders"
    assert found.sinks[0].name == "delta:marts/out"


def test_a_flow_s_files_are_sought_beside_the_pipeline_file(tmp_path):
    file = tmp_path / "pipeline.yaml"
    text = pipeline_at(tmp_path, flows={"f": GOOD}).model_dump_json(exclude_unset=True)
    file.write_text(text)
    assert pipeline_file.load(file).flows["f"].sql == str(tmp_path / "a.sql")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"sql": None}, "give exactly one of `python` and `sql`"),
        ({"python": "a.py:f"}, "give exactly one of `python` and `sql`"),
        ({"sql": None, "python": "a.py"}, "expected FILE.py:FUNCTION"),
        ({"inputs": {}}, "`flows.revenue.inputs` is empty"),
        ({"inputs": {"Orders": INPUT}}, "lower-case letters"),
        ({"inputs": {"o": {}}}, "give exactly one of `change_log`, `kafka` and `files`"),
        ({"inputs": {"o": {**INPUT, "kafka": "t"}}}, "give exactly one of"),
        ({"inputs": {"o": {"files": "/x"}}}, "files of format `json` need `columns`"),
        (
            {"inputs": {"o": {"files": "/x", "format": "text", "columns": "a int"}}},
            "have no `columns`",
        ),
        ({"inputs": {"o": {**INPUT, "event_time": "a"}}}, "go together"),
        (
            {"inputs": {"o": {**INPUT, "event_time": "a", "watermark": "soon"}}},
            "expected a number and a unit",
        ),
        ({"trigger": "soon"}, "expected a number and a unit"),
        ({"sinks": []}, "`flows.revenue.sinks` is empty"),
        (
            {"sinks": [{}]},
            "give exactly one of `delta`, `mysql`, `redis`, `kafka`, `files`, `console`",
        ),
        ({"sinks": [{"files": "t", "keys": ["a"]}]}, "`keys` is not for files and the console"),
        ({"sinks": [{"redis": "t", "connection": "c"}]}, "`redis` needs `keys`"),
        ({"sinks": [{"mysql": "t"}]}, "`connection` goes with `mysql` and `redis`"),
        (
            {"sinks": [{"mysql": "t", "connection": "c"}]},
            "pipeline file: flows.revenue: `connection: c` of mysql c/t is not one of `connections`",
        ),
        ({"inputs": {"a": {"table": "d.t"}}}, "no input is a stream"),
        (
            {
                "inputs": {
                    "a": INPUT,
                    "b": {"table": "d.t", "watermark": "1 hour", "event_time": "x"},
                }
            },
            "`event_time`, `watermark`, `starting` and `at_once` are for streams alone",
        ),
        ({"inputs": {"a": INPUT, "b": {"mysql": "t"}}}, "`mysql` and `connection` go together"),
        ({"sinks": [{"delta": "/etc"}]}, "expected a folder below the lake"),
        ({"sinks": [{"delta": "../x"}]}, "expected a folder below the lake"),
        ({"sinks": [{"delta": "_ingest/x"}]}, "expected a folder below the lake"),
        ({"sinks": [{"delta": "a"}, {"delta": "a"}]}, "two sinks are the same"),
        ({"mode": "update"}, "say by which `keys`"),
        ({"mod": "update"}, "perhaps `mode` is meant"),
    ],
)
def test_what_cannot_be_run_is_refused_with_its_reason(tmp_path, settings, said):
    assert said in refusal(tmp_path, **settings)


def test_names_are_such_as_folders_may_have(tmp_path):
    assert "lower-case letters, digits" in refusal(tmp_path, name="Revenue")


def test_two_flows_do_not_write_one_table(tmp_path):
    with pytest.raises(IngestError, match="(a and b|b and a) both write marts/out"):
        pipeline_at(tmp_path, flows={"a": GOOD, "b": GOOD})
