"""The page of metrics, served on a real port and read by Prometheus's own parser."""

import json
import re
import time
import urllib.error
import urllib.request
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyspark.errors import PySparkException

from ingest.batch.parts import StaleCheckpointError
from ingest.config import pipeline_file
from ingest.flows.flow_record import FlowStatus
from ingest.job.stream_failure import again
from ingest.job.wall_clock import ClockSetBackError
from ingest.lake.delta.other_writers import ForeignCommitError
from ingest.maintenance.upkeep import Upkeep
from ingest.model.errors import IngestError
from ingest.model.gap import Gap
from ingest.model.manifest import TableState
from ingest.model.position import Position
from ingest.model.start_facts import Foreign
from ingest.model.topics import TableId
from ingest.observe.caught_up import Progress, TableLag
from ingest.observe.events import KINDS
from ingest.observe.lag_watch import LagWatch
from ingest.observe.metrics import METRICS, Facts
from ingest.observe.metrics_page import MetricsPage
from ingest.observe.observer import Observer, observed
from ingest.observe.published import Published
from ingest.observe.totals import Totals
from tests.support.sound_start import entry
from tests.unit.config.test_pipeline_file import GOOD

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"
ODD = str(TableId("d", 'a"b\\c\nd 茶'))
GAP = Gap("d.t", "p.d.t", 0, 4, 9, "lost", 4)
NEWEST = replace(
    entry(4, ends=(13, 4), changes=9, rejects=2, resent=3, late=1, gaps=(GAP,)),
    tables={
        "d.t": TableState("/l/d/t", 9, changes=4),
        ODD: TableState("/l/d/odd", 2, changes=5, paused=Position(0, 1, 1)),
    },
    stages={"read": 0.25, "apply": 1.5},
    seconds=2.0,
    state_rows=11,
    state_bytes=1200,
    source_time=datetime(2026, 1, 1, tzinfo=timezone.utc),
)
LAG = Progress(1000.0, 990.0, {"d.t": TableLag(7, 990.0), ODD: TableLag(0, None)}, 3, 1, 12)


def page(look):
    """What Prometheus would keep: (name, labels) to value."""
    served = MetricsPage(look, 0, "127.0.0.1")
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{served.port}/metrics") as answer:
            text = answer.read().decode()
    finally:
        served.close()
    families = list(text_string_to_metric_families(text))
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }
    return families, samples


def busy():
    found = Observer("shop", "/l", ("d.*",), 7)
    found.published(Published(entry(3), NEWEST, {"d.t": "driver"}))
    found.upkeep(4, [Upkeep("/l/d/t", "vacuumed", "3 files", files=3)])
    found.restarted("conflict")
    found.restarted("E-KAFKA-AWAY")
    found.lag = LagWatch(SimpleNamespace(), str, "p.", progress=replace(LAG, looked_at=time.time()))
    found.lag.looks.update(answered=5, failed=1)
    state = ({"operator": "stateStoreSave", "rows": 6, "bytes": 700},)
    runs = FlowStatus("runs", 3, rows=12, late=2, restarts=1, operators=state)
    found.flows = lambda: {"f": runs, "g": FlowStatus("failed")}
    return found


def test_the_page_says_what_the_manifest_and_the_watch_say():
    _, found = page(busy().facts)

    def value(name, **labels):
        return found[name, tuple(sorted(labels.items()))]

    assert value("ingest_changes_total", outcome="taken") == 9
    assert value("ingest_changes_total", outcome="quarantined") == 2
    assert value("ingest_changes_total", outcome="resent") == 3
    assert value("ingest_changes_total", outcome="late") == 1
    assert value("ingest_changes_by_reader_total", reader="driver") == 4
    assert value("ingest_changes_by_reader_total", reader="columns") == 5
    assert value("ingest_table_changes_total", table=ODD) == 5, "a hostile name survives the page"
    assert value("ingest_table_commits_total", table="d.t") == 2
    assert value("ingest_table_commits_total", table=ODD) == 3
    assert value("ingest_batches_total", kind="batch") == 1
    assert value("ingest_stage_seconds_total", stage="apply") == 1.5
    assert value("ingest_batch_seconds_total") == 2.0
    assert value("ingest_batch_changes") == 9
    assert value("ingest_caught_up_timestamp_seconds") == 990
    assert value("ingest_lag_seconds") > 1e9, "it is counted from the moment of asking"
    assert value("ingest_table_lag_records", table="d.t") == 7
    assert value("ingest_transactions_not_in_kafka") == 3
    assert value("ingest_lag_looks_total", outcome="failed") == 1
    assert value("ingest_gaps_open") == 1
    assert value("ingest_gaps_total", what="opened") == 1
    assert value("ingest_tables_paused") == 1
    assert value("ingest_tables_stopped") == 0
    assert value("ingest_tables_left_out") == 1
    assert value("ingest_quarantine_waiting") == 12
    assert value("ingest_restarts_total", reason="E-KAFKA-AWAY") == 1
    assert value("ingest_conflicts_total") == 1
    assert value("ingest_lease_term") == 7
    assert value("ingest_upkeep_total", what="vacuumed") == 1
    assert value("ingest_state_bytes") == 1200
    assert value("ingest_memory_bytes", process="python") > 1e6
    assert value("ingest_observe_failures_total") == 0
    assert value("ingest_flow_up", flow="f") == 1
    assert value("ingest_flow_up", flow="g") == 0
    assert value("ingest_flow_rows_total", flow="f") == 12
    assert value("ingest_flow_late_total", flow="f") == 2
    assert value("ingest_flow_state_rows", flow="f", operator="0:stateStoreSave") == 6


def test_a_table_that_is_excluded_by_now_is_neither_paused_nor_stopped_to_who_watches():
    stands = replace(NEWEST, tables={"d.t": replace(NEWEST.tables[ODD], stopped="a disk is full")})
    found = Observer("shop", "/l", ("d.*",), 7)
    found.published(Published(entry(3), stands))
    for patterns, many in ((("d.*",), 1), (("d.*", "!d.t"), 0)):
        found.patterns = patterns
        _, values = page(found.facts)
        assert values["ingest_tables_paused", ()] == many
        assert values["ingest_tables_stopped", ()] == many


def test_every_metric_is_on_the_page_of_a_busy_run_and_nothing_else_is():
    families, found = page(busy().facts)
    named = {name for name, _ in found if not name.endswith("_created")}
    assert named == {metric.name for metric in METRICS}
    kinds = {family.name: family.type for family in families}
    for metric in METRICS:
        assert kinds[metric.name.removesuffix("_total")] == metric.kind


def test_what_is_not_known_is_left_out_and_never_zero():
    fresh = Facts("shop", Totals(), Progress(), now=5.0, started=1.0)
    _, found = page(lambda: fresh)
    names = {name for name, _ in found}
    assert not names & {
        "ingest_lag_seconds",
        "ingest_caught_up_timestamp_seconds",
        "ingest_table_lag_seconds",
        "ingest_transactions_not_in_kafka",
        "ingest_gaps_open",
        "ingest_tables_paused",
        "ingest_tables_stopped",
        "ingest_tables_left_out",
        "ingest_quarantine_waiting",
        "ingest_batch_changes",
    }


def test_a_table_whose_moment_is_not_known_has_records_and_no_lag():
    _, found = page(busy().facts)
    tables = {dict(labels)["table"] for name, labels in found if name == "ingest_table_lag_seconds"}
    assert tables == {"d.t"}


def test_lag_grows_while_nothing_is_proven():
    facts = Facts("shop", Totals(), LAG, now=1000.0, started=1.0)
    lag = next(metric for metric in METRICS if metric.name == "ingest_lag_seconds")
    assert lag.read(facts) == {(): 10.0}
    assert lag.read(replace(facts, now=4600.0)) == {(): 3610.0}


def test_what_a_look_of_long_ago_has_counted_is_left_out_and_its_moment_grows_old():
    def drawn(now):
        facts = Facts("shop", Totals(), LAG, now=now, started=1.0)
        return {metric.name: found for metric in METRICS if (found := metric.read(facts))}

    counts = {
        "ingest_table_lag_records",
        "ingest_transactions_not_in_kafka",
        "ingest_tables_left_out",
        "ingest_quarantine_waiting",
    }
    assert counts < drawn(1015.0).keys()
    later = drawn(1016.0)
    assert not counts & later.keys()
    assert later["ingest_table_lag_seconds"] == {("d.t",): 26.0}
    assert later["ingest_lag_looked_timestamp_seconds"] == {(): 1000.0}


def test_a_gap_of_a_table_that_is_excluded_by_now_is_not_open():
    totals = Totals(newest=replace(NEWEST, gaps=(GAP, replace(GAP, table="p.d.gone.x"))))
    facts = Facts("shop", totals, LAG, now=0.0, started=0.0, patterns=("d.*", "!d.t"))
    assert facts.open_gaps == 1, "a topic's name, of a table that is not known, stays open"


def test_names_are_prometheus_own_and_every_counter_ends_in_total():
    for metric in METRICS:
        assert re.fullmatch(r"ingest_[a-z_]+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert len({metric.name for metric in METRICS}) == len(METRICS)


def test_the_page_of_the_documentation_and_the_code_name_the_same():
    text = PAGE.read_text(encoding="utf-8")
    documented = re.findall(
        r"^\| `(ingest_[a-z_]+)(?:\{([a-z,]+)\})?` \| (counter|gauge) \|", text, re.MULTILINE
    )
    wanted = [(metric.name, ",".join(metric.labels), metric.kind) for metric in METRICS]
    assert sorted(documented) == sorted(wanted)
    assert re.findall(r"^\| `((?!ingest_)[a-z_]+)` \|", text, re.MULTILINE) == list(KINDS)


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (ForeignCommitError("/l/d/t", Foreign(8, "WRITE")), "conflict"),
        (StaleCheckpointError(), "stale-checkpoint"),
        (PySparkException("[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update"), "shared-checkpoint"),
        (PySparkException("[KAFKA_DATA_LOSS.START_OFFSET_RESET] x"), "lost-records"),
        (ClockSetBackError(), "clock-set-back"),
        (RuntimeError("something"), "E-STREAM-FAILED"),
        (KeyError("x"), "E-BATCH-FAILED"),
        (IngestError("E-KAFKA-AWAY", "away", remedy="", may_pass=True), "E-KAFKA-AWAY"),
    ],
)
def test_every_end_of_a_stream_has_one_word_that_the_page_knows(tmp_path, failure, reason):
    assert again(failure, tmp_path / "spark.log").code == reason
    assert reason.startswith("E-") or f"`{reason}`" in PAGE.read_text(encoding="utf-8")


def test_what_a_run_sums_up_later_does_not_change_a_page_that_is_being_drawn():
    found = busy()
    facts = found.facts()
    found.published(Published(NEWEST, replace(NEWEST, batch_id=5)))
    assert facts.totals.batches == {"batch": 1}
    assert found.facts().totals.batches == {"batch": 2}


def wanted(tmp_path, **observe):
    text = GOOD.replace("/tmp/lake", str(tmp_path / "lake"))
    return pipeline_file.parse(text + f"observe: {json.dumps(observe)}")


def test_a_port_that_is_taken_is_said_and_ends_nothing(tmp_path):
    taken, said = MetricsPage(busy().facts, 0, "127.0.0.1"), []
    try:
        pipeline = wanted(tmp_path, metrics_port=taken.port)
        with observed(pipeline, tmp_path / "spark.log", 7, said.append) as observer:
            assert observer.lag is None, "nobody would read what is asked"
    finally:
        taken.close()
    assert [sentence.partition(":")[0] for sentence in said] == [
        "no metrics are served on 127.0.0.1"
    ]


def test_without_settings_nothing_is_said_written_or_served(tmp_path):
    said = []
    with observed(wanted(tmp_path), tmp_path / "spark.log", 7, said.append) as observer:
        assert (observer.log, observer.lag) == (None, None)
    assert (said, list(tmp_path.iterdir())) == ([], [])


def test_a_run_that_fails_says_so_by_its_code(tmp_path):
    pipeline = wanted(tmp_path, log="json")
    with (
        pytest.raises(IngestError),
        observed(pipeline, tmp_path / "logs" / "spark.log", 7, lambda _: None),
    ):
        raise IngestError("E-SPARK-DIED", "Spark ended at row 'secret'.", remedy="run again")
    lines = (tmp_path / "logs" / "events-shop.jsonl").read_text(encoding="utf-8").splitlines()
    start, end = map(json.loads, lines)
    assert (start["event"], start["pipeline"], start["term"]) == ("run_started", "shop", 7)
    assert (end["event"], end["ok"], end["failure"]) == ("run_ended", False, "E-SPARK-DIED")
    assert "secret" not in "".join(lines)


def test_a_page_that_is_closed_gives_its_port_back():
    first = MetricsPage(busy().facts, 0, "127.0.0.1")
    port = first.port
    first.close()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics")
    MetricsPage(busy().facts, port, "127.0.0.1").close()


def test_off_is_a_word_and_an_unknown_setting_is_refused(tmp_path):
    assert pipeline_file.parse(GOOD + "observe: {log: off}").observe.log == "off"
    assert pipeline_file.parse(GOOD).observe.metrics_address == "127.0.0.1"
    for wrong, hint in [
        ("{logs: json}", "perhaps `log` is meant"),
        ("{log: xml}", "observe.log"),
        ("{metrics_port: 0}", "observe.metrics_port"),
        ("{log: true}", "observe.log"),
    ]:
        with pytest.raises(IngestError, match=re.escape(hint)):
            pipeline_file.parse(GOOD + f"observe: {wrong}")
