"""What a run tells machines: a line of each kind, and never a value of a row."""

import json
import random
import threading
from collections import Counter
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from ingest.job.stream_failure import again
from ingest.lake.engines.engine_choice import Choice
from ingest.maintenance.upkeep import Upkeep
from ingest.model.errors import IngestError, of_table
from ingest.model.gap import Gap
from ingest.model.manifest import TableState
from ingest.model.position import Position
from ingest.model.reasons import COULD_NOT
from ingest.model.topics import TableId
from ingest.observe import event_log, events
from ingest.observe.event_log import EventLog, path_beside
from ingest.observe.observer import Observer
from ingest.observe.published import Published
from ingest.sample import values
from ingest.schema.steps import Applied
from tests.support.sound_start import entry

GAP = Gap("d.t", "p.d.t", 0, 4, 9, "Kafka removed records before they were applied", 4)
BEFORE = entry(3)
OPENED = replace(
    entry(4, ends=(13, 4), version=9, gaps=(GAP,), rejects=2, stages={"read": 0.25, "apply": 1.5}),
    tables={"d.t": TableState("/l/d/t", 9, changes=4, engine="delta-rs: it fits")},
    source_time=datetime(2026, 1, 1, tzinfo=timezone.utc),
)
CLOSED = replace(
    OPENED.without_changes("cleanup", 5, 1), gaps=(replace(GAP, resync=Position(0, 1, 9)),)
)


def everything(observer, failure=None):
    """A run in which each thing happens once."""
    observer.begin()
    observer.decided(finish=3, resume=False, rewinds=True, resync=["d.t"], restored=["/l/d/t"])
    observer.published(Published(BEFORE, OPENED, {"d.t": "driver"}))
    observer.published(Published(OPENED, CLOSED))
    observer.upkeep(5, [Upkeep("/l/d/t", "ordered", "10 rows in 2 files put in order", 10, 2, 0.5)])
    observer.restarted("conflict")
    observer.left_out(TableId("d", "t"))
    observer.end(failure)


def told(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def observer(path, form="json"):
    return Observer("shop", "/l", term=7, log=EventLog(path, form))


def test_a_line_of_each_kind_is_json_with_its_batch_and_its_table(tmp_path):
    path = tmp_path / "events.jsonl"
    everything(observer(path))
    lines = told(path)
    assert Counter(line["event"] for line in lines).keys() == set(events.KINDS)
    assert all(datetime.fromisoformat(line["timestamp"].replace("Z", "+00:00")) for line in lines)
    by = {line["event"]: line for line in reversed(lines)}  # the first of each kind
    assert by["run_started"]["term"] == 7
    assert by["start_decided"] == by["start_decided"] | {
        "finish": 3,
        "resume": False,
        "rewinds": True,
        "resync": ["d.t"],
        "restored": ["d.t"],
    }
    assert by["batch_published"] == by["batch_published"] | {
        "batch": 4,
        "kind": "batch",
        "changes": 4,
        "stages": {"read": 0.25, "apply": 1.5},
    }
    assert by["table_applied"] == by["table_applied"] | {
        "batch": 4,
        "table": "d.t",
        "version": 9,
        "engine": "delta-rs",
        "why": "it fits",
        "reader": "driver",
    }
    assert by["changes_quarantined"] == by["changes_quarantined"] | {"batch": 4, "changes": 2}
    assert by["gap_opened"] == by["gap_opened"] | {"batch": 4, "table": "d.t", "reason": GAP.reason}
    assert by["gap_closed"] == by["gap_closed"] | {"batch": 5, "table": "d.t", "since": 4}
    assert by["upkeep_done"] == by["upkeep_done"] | {"batch": 5, "table": "d.t", "what": "ordered"}
    assert by["stream_restarted"] == by["stream_restarted"] | {"batch": 5, "reason": "conflict"}
    assert by["table_left_out"]["table"] == "d.t"
    assert by["run_ended"] == by["run_ended"] | {"ok": True, "batches": 2}


def test_a_line_of_each_kind_as_text_has_the_same_names(tmp_path):
    path = tmp_path / "events.log"
    everything(observer(path, "text"))
    lines = path.read_text(encoding="utf-8").splitlines()
    assert {line.split(" ")[1] for line in lines} == {f"event={kind}" for kind in events.KINDS}
    assert any("batch=4" in line and "table=d.t" in line for line in lines)


def test_a_gap_is_opened_once_and_closed_once():
    again_ = Published(OPENED, replace(OPENED, batch_id=5))
    assert (again_.opened, again_.closed) == ((), ())
    assert Published(OPENED, CLOSED).closed == CLOSED.gaps
    assert Published(None, CLOSED).opened == ()


def test_a_table_that_went_back_has_gained_no_version_and_one_that_was_made_anew_all_of_its():
    def at(version, id_="one"):
        return replace(OPENED, tables={"d.t": TableState("/l/d/t", version, id=id_)})

    assert Published(at(9), at(12)).versions == {"d.t": 3}
    assert Published(at(9), at(4)).versions == {}
    assert Published(at(9), at(4, "another")).versions == {"d.t": 5}
    assert Published(None, at(4)).versions == {"d.t": 5}


KINDS_OF_VALUES = (
    "VARCHAR(40)",
    "TEXT",
    "VARBINARY(64)",
    "JSON",
    "DECIMAL(65,30)",
    "DATETIME(6)",
    "BIGINT UNSIGNED",
    "ENUM('very-secret-label','another-secret-label')",
)


def hostile():
    """Texts of values that no name and no number of an event can be by chance."""
    rng = random.Random(26)
    for kind in KINDS_OF_VALUES:
        drawn = [values.drawn(rng, kind) for _ in range(60)]
        for value in (*values.values(kind), *drawn):
            texts = {str(value.json), str(value.lake), value.sql}
            yield from (text for text in texts if len(text.strip()) >= 8)


def strings(found):
    if isinstance(found, str):
        yield found
    elif isinstance(found, dict):
        for name, inner in found.items():
            yield name
            yield from strings(inner)
    elif isinstance(found, list):
        for inner in found:
            yield from strings(inner)
    else:
        yield str(found)


def failures_that_quote(value):
    """As Spark, delta-rs and our own code word them."""
    yield ValueError(f"cannot parse {value!r}")
    yield RuntimeError(
        f"[CAST_INVALID_INPUT] The value '{value}' of the type STRING cannot be cast"
    )
    yield IngestError("E-STREAM-FAILED", f"failed at {value}", remedy=f"see {value}", may_pass=True)


@pytest.mark.parametrize("form", ["json", "text"])
def test_no_value_of_a_row_stands_in_any_event_whatever_quotes_it(tmp_path, form):
    path, secrets = tmp_path / f"events.{form}", sorted(set(hostile()))
    assert len(secrets) > 300
    found = observer(path, form)
    for value in secrets:
        # All that reaches events with words that are not ours: an engine's refusal, a failure, upkeep that failed.
        chosen = Choice("spark", COULD_NOT.of(words=value)[:200])
        applied = Applied(TableId("d", "t"), "/l/d/t", 9, 4, engine=str(chosen))
        engine = applied.read_by_spark(f"not plain: {value}").engine
        assert value[:20] in engine
        state = TableState("/l/d/t", 9, changes=4, engine=engine)
        found.published(Published(BEFORE, replace(OPENED, tables={"d.t": state})))
        found.upkeep(4, [Upkeep("/l/d/t", "failed", f"cannot be put in order: {value}")])
        for failure in failures_that_quote(value):
            of_table(failure, "d.t")
            found.restarted(again(failure, tmp_path / "spark.log").code)
            found.end(failure)
    assert found.totals.failures == 0
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) > 9 * len(secrets)
    different = {without_counts(line, form) for line in lines}
    assert len(different) < 20, (
        "lines that differ by nothing but time and count say nothing of a value"
    )
    said = {
        text
        for line in different
        for text in (strings(json.loads(line)) if form == "json" else [line])
    }
    assert [(v, text) for v in secrets for text in said if v in text] == []


def without_counts(line, form):
    if form == "text":
        return " ".join(
            word
            for word in line.split(" ")
            if not word.startswith(("timestamp=", "seconds=", "batches="))
        )
    found = json.loads(line)
    counted = ("timestamp", "seconds", "batches")
    return json.dumps({k: v for k, v in found.items() if k not in counted})


def test_a_leak_would_be_found(tmp_path, monkeypatch):
    """A mutant: the engine's own words go into the event."""
    monkeypatch.setattr(events, "merged_by", lambda said: (said, said))
    with pytest.raises(AssertionError):
        test_no_value_of_a_row_stands_in_any_event_whatever_quotes_it(tmp_path, "json")


def test_a_hostile_name_of_a_table_stays_one_line(tmp_path):
    name = str(TableId("d\nb", 'ta"b\\le 茶 = x'))
    state = TableState("/l/x", 9, changes=1)
    for form in ("json", "text"):
        path = tmp_path / form
        observer(path, form).published(Published(None, replace(OPENED, tables={name: state})))
        lines = path.read_text(encoding="utf-8").splitlines()
        assert len(lines) == 4
        if form == "json":
            assert [line["table"] for line in map(json.loads, lines) if "version" in line] == [name]


def test_a_table_is_named_by_its_path_below_the_lake():
    assert events.table_at("/l/", "/l/shop/orders") == "shop.orders"
    assert events.table_at("/l", "/l/_ingest/manifest") == "_ingest/manifest"
    assert events.table_at("/l", "/l/a%2Fb/%5Fx") == "a/b._x"


def test_a_full_disk_costs_events_and_nothing_else(tmp_path, capfd):
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    found = Observer("shop", "/l", log=EventLog(Path("/dev/full"), "json"))
    found.log._file.shouldRollover = lambda _: False  # a device has no size
    everything(found)
    assert found.facts().totals.failures == 12, "each line, counted"
    assert found.totals.batches == {"batch": 1, "cleanup": 1}
    assert capfd.readouterr() == ("", "")


def test_what_an_observer_does_wrong_fails_no_batch(tmp_path):
    found = observer(tmp_path / "events.jsonl")
    found.published(Published(None, replace(OPENED, stages=None)))
    assert found.totals.failures == 1


def test_a_file_that_has_grown_is_put_aside(tmp_path, monkeypatch):
    monkeypatch.setattr(event_log, "MOST_BYTES", 2000)
    path = tmp_path / "events.jsonl"
    found = observer(path)
    for _ in range(300):
        found.restarted("conflict")
    assert path.stat().st_size <= 2000
    assert len(list(tmp_path.iterdir())) == 5


def test_events_of_many_threads_are_whole_lines(tmp_path):
    path = tmp_path / "events.jsonl"
    found = observer(path)
    threads = [
        threading.Thread(target=lambda: [found.restarted("conflict") for _ in range(50)])
        for _ in range(4)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(told(path)) == found.totals.restarts["conflict"] == 200


def test_the_file_is_beside_sparks_log():
    log = Path("/x/logs/spark-shop.log")
    assert path_beside(log, "shop", "json") == Path("/x/logs/events-shop.jsonl")
    assert path_beside(log, "shop", "text") == Path("/x/logs/events-shop.log")
