"""What `ingest plan` says of flows."""

from ingest.flows.continuity import Fingerprint
from ingest.flows.flow_record import FlowRecord
from ingest.model.topics import TableId
from ingest.observe.flow_plan import of_flows
from ingest.testing.lake import pipeline_at

ORDERS = TableId("shop", "orders")
FLOW = {
    "sql": "a.sql",
    "inputs": {"orders": {"change_log": "shop.orders"}},
    "sinks": [{"delta": "marts/out"}],
}


def effects(tmp_path, record=None, digest="d", logs=lambda _: True, **settings):
    flows = pipeline_at(tmp_path, flows={"f": {**FLOW, **settings}}).flows
    if record is not None:
        made = Fingerprint((("orders", "change log shop.orders"),), "append", (), "plan", "d")
        record = FlowRecord(1, "c", made)
    return [
        (effect.costs, effect.sentence)
        for effect in of_flows(flows, {"f": record}, {"f": digest}, [ORDERS], logs)
    ]


def test_a_new_one_begins_where_it_says(tmp_path):
    assert effects(tmp_path) == [
        (("nothing",), "begins: reads change log shop.orders from its beginning")
    ]


def test_one_that_is_as_it_was_is_no_effect(tmp_path):
    assert effects(tmp_path, record=True) == []


def test_a_changed_function_and_a_changed_mode(tmp_path):
    ((costs, said),) = effects(tmp_path, record=True, digest="other")
    assert costs == ("nothing",)
    assert "goes on where its state can follow, and is refused where not" in said
    ((costs, said),) = effects(tmp_path, record=True, mode="complete")
    assert (costs, "say `on_change: restart`" in said) == (("refused",), True)
    ((costs, said),) = effects(tmp_path, record=True, mode="complete", on_change="restart")
    assert (costs, "begins again" in said) == (("rewrite",), True)


def test_an_input_without_a_log_and_a_table_in_a_copy_s_place_are_refused(tmp_path):
    ((costs, said),) = effects(tmp_path, logs=lambda _: False)
    assert (costs, "has no change log" in said) == (("refused",), True)
    ((costs, said),) = effects(tmp_path, sinks=[{"delta": "shop/orders"}])
    assert (costs, "where the copy of shop.orders does" in said) == (("refused",), True)
