"""What a benchmark writes with ``--json`` becomes a question's result, where it was asked as the question wants it."""

from __future__ import annotations

import argparse
import ast
import json
import re
from datetime import datetime, timezone
from pathlib import Path
from statistics import median

import pytest

from bench import result_file
from bench.figures.__main__ import take
from bench.figures.page import measured, part, with_results
from bench.figures.question import amount, ratio
from bench.figures.questions import BY_NAME, QUESTIONS
from bench.figures.results import load, save
from bench.figures.take import Unfit, taken
from bench.freshness import Pace, Window, as_json
from ingest.model.manifest import Entry

ROOT = Path(__file__).parents[2]


def parsed(bench):
    return ast.parse((ROOT / "bench" / f"{bench}.py").read_text())


def written(folder, bench, asked, **found):
    """A file as a benchmark writes it, with all that it writes."""
    calls = [one for one in ast.walk(parsed(bench)) if isinstance(one, ast.Call)]
    (call,) = (one for one in calls if ast.unparse(one.func) == "result_file.write")
    assert {one.arg for one in call.keywords} == found.keys(), bench
    file = folder / f"{bench}.json"
    result_file.write(argparse.Namespace(**asked, json=file), bench, **found)
    return file


def merges(folder, rows=1_000_000, **other):
    asked = {"tables": 1, "rows": rows, "changes": 1000, "rounds": 3, "warm": 2, "apart": True}
    asked |= {"only": ["stock", "ingest", "lean"], "once": [], **other}
    took = {
        "stock": [(9.0, 20.0, 8.0), (10.0, 21.0, 8.5), (30.0, 22.0, 9.0)],
        "ingest": [(1.0, 2.0, 0.8), (1.2, 2.0, 0.85), (0.9, 2.1, 0.9)],
        "lean": [(0.5, 1.0, 0.4), (0.5, 1.0, 0.4), (0.6, 1.1, 0.5)],
    }
    return written(folder, "merges", asked, took=took, again=0.0001, firsts=[1.0])


def batch(number, changes):
    return Entry(
        number, "abc", {}, {}, {}, changes, 0, None, None, 0, datetime.now(timezone.utc), 0.4
    )


def run_of(name, file):
    ((case, run),) = taken(BY_NAME[name], json.loads(file.read_text())).items()
    return case, run


def test_a_file_becomes_the_case_that_it_is_a_run_of(tmp_path):
    case, run = run_of("P2", merges(tmp_path))
    assert case == "a million rows"
    assert run.medians["stock"]["seconds"] == 10.0
    assert run.medians["ingest"]["seconds_of_stock"] == 0.1
    assert run.medians["ingest"]["apply_of_stock"] == 0.1
    assert run.rounds["stock"]["cpu"] == [20.0, 21.0, 22.0]
    assert run.counted == {"stock": 3, "ingest": 3, "lean": 3}
    assert run.commit == result_file.commit()
    assert run.machine == result_file.machine()
    case, _ = run_of("P2", merges(tmp_path, rows=10_000_000))
    assert case == "ten million rows"


def test_a_file_of_several_sizes_is_a_run_of_each_and_the_last_is_what_was_left(tmp_path):
    sizes = ["100", "1,000", "10,000", "100,000", "2,000,000"]
    of = {
        "ingest_driver": [(90, 0.5, 1.0)],
        "ingest_tasks": [(90, 1.0, 1.5)],
        "ingest_spark": [(90, 5.0, 9.0)],
    }
    asked = {"tables": 10, "rows": 50_000, "sizes": [100, 1000], "batches": 4, "most": 2_000_000}
    file = written(tmp_path, "lanes", asked, took=dict.fromkeys(sizes, of))
    found = taken(BY_NAME["P11"], json.loads(file.read_text()))
    assert [*found] == [case.name for case in BY_NAME["P11"].cases]
    assert found["all that is left"].medians["ingest_tasks"]["of_driver"] == 2.0
    assert found["100 changes"].medians["ingest_spark"]["changes_a_second"] == 18.0


def test_the_command_names_all_that_was_asked(tmp_path):
    _, run = run_of("P2", merges(tmp_path))
    assert run.command == (
        "python -m bench merges --tables 1 --rows 1000000 --changes 1000 --rounds 3 --warm 2 --apart "
        "--only stock ingest lean"
    )


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({"rows": 50_000}, "wants rows 1000000, not 50000"),
        ({"apart": False}, "wants apart True, not False"),
        ({"changes": 10}, "wants changes 1000, not 10"),
    ],
)
def test_a_run_of_another_size_is_refused(tmp_path, other, says):
    with pytest.raises(Unfit, match=says):
        run_of("P2", merges(tmp_path, **other))


def test_a_run_without_a_contestant_or_of_another_benchmark_is_refused(tmp_path):
    file = merges(tmp_path)
    found = json.loads(file.read_text())
    found["took"]["stock"] = []
    with pytest.raises(Unfit, match="a million rows: has no figures of stock"):
        taken(BY_NAME["P2"], found)
    with pytest.raises(Unfit, match="measured by idle, not by merges"):
        run_of("P8", file)


def test_taking_replaces_one_case_and_the_page_says_so(tmp_path):
    save(load("P2"), tmp_path)
    before = load("P2", tmp_path)
    said = take(merges(tmp_path), "P2", tmp_path)
    after = load("P2", tmp_path)
    assert said.startswith("P2.json: a million rows, measured ")
    assert after.runs["ten million rows"] == before.runs["ten million rows"]
    assert "| a million rows | ingest | 1.00 | 2.00 | 0.85 | 0.100 | 0.100 |" in part(
        BY_NAME["P2"], after
    )


def test_a_backlog_in_one_batch_and_in_batches(tmp_path):
    asked = {"tables": 10, "rows": 50_000, "transactions": 1_000_000, "each": 10, "limit": 40_000}
    took = {"stock": [(100.0, 150.0, 2_000_000_000)], "lean": [(20.0, 15.0, 800_000_000)]}
    took["ingest"] = [(12.0, 18.0, 10**9), (15.0, 21.0, 10**9), (10.0, 15.0, 10**9)]
    case, run = run_of("P1", written(tmp_path, "drains", asked, took=took))
    assert case == "one batch"
    assert run.counted == {"stock": 1, "ingest": 3, "lean": 1}
    assert run.medians["ingest"] == {
        "seconds": 12.0,
        "cpu_per_million": 12.0,
        "megabytes": 1000.0,
        "changes_a_second": 125_000.0,
        "seconds_of_stock": 0.12,
        "cpu_per_million_of_stock": 0.12,
    }
    said = measured(BY_NAME["P1"].case(case), run)
    assert "rounds: stock 1, ingest 3, lean, batches of 100,000 1" in said
    asked |= {"tables": 4, "transactions": 100_000, "each": 1}
    took = {"stock-limited": [(200.0, 300.0, 10**9)], "ingest-limited": [(10.0, 15.0, 10**9)]}
    case, run = run_of("P1", written(tmp_path, "drains", asked, took=took))
    assert case == "batches of 40,000"
    assert run.medians["ingest-limited"]["seconds_of_stock"] == 0.05


def test_a_window_of_freshness_is_a_round(tmp_path):
    asked = {"tables": 10, "rows": 10_000, "rate": [500.0, 2000.0], "each": [1, 10], "rounds": 2}
    windows = []
    for pace in (Pace(500.0, 1), Pace(2000.0, 10)):
        for late in (0.0, 0.2):
            ages = [late + pace.each * number / 1000 for number in range(100)]
            batches = [batch(number, 100 * pace.each) for number in range(3)]
            windows.append(as_json(Window(pace, 1000, 30.0, ages, batches)))
    _, run = run_of("P4", written(tmp_path, "freshness", asked, windows=windows))
    assert run.rounds["500"]["median"] == [0.05, 0.25]
    assert run.rounds["2000"]["at_99"] == [0.99, 1.19]
    assert run.rounds["2000"]["worst"] == [0.99, 1.19]
    assert run.medians["500"]["median"] == 0.15
    assert run.medians["2000"]["batch_changes"] == 1000
    assert run.medians["2000"]["each"] == 10


def test_rates_of_the_whole_way(tmp_path):
    asked = {"tables": 4, "rows": 100_000, "changes": 100_000, "each": 10}
    took = {"kafka": [(40.0, 10.0)], "ingest": [(80.0, 12.5)]}
    _, run = run_of("P5", written(tmp_path, "end_to_end", asked, took=took))
    assert run.medians["ingest"] == {
        "rows_a_second": 5000.0,
        "changes_a_second": 8000.0,
        "rows_a_second_of_kafka": 0.5,
        "changes_a_second_of_kafka": 0.8,
    }


def test_how_files_lie_and_a_lake_that_grew_old_are_two_questions(tmp_path):
    asked = {"rows": 1_000_000, "changes": 1000, "batches": 200, "keys": "zipf", "young": False}
    scans = {"scan_spark": 1.1, "scan_spark_compacted": 1.0}
    scans |= {"scan_delta_rs": 0.9, "scan_delta_rs_compacted": 1.0}
    found = {"stock": {"bytes": 2e9, "files": 2, **scans}}
    found["ingest"] = {"bytes": 5e8, "files": 1, **scans}
    case, run = run_of(
        "P6", written(tmp_path, "layout", asked, took={}, found=found, beside_young={})
    )
    assert case == "zipf keys"
    assert run.medians["ingest"]["megabytes"] == 2.5
    assert run.medians["ingest"]["megabytes_of_stock"] == 0.25
    assert run.medians["stock"]["scan_delta_rs"] == 0.9
    asked |= {"batches": 2000, "keys": "recent", "young": True}
    turns = {"old": [0.15, 0.14, 0.16], "young": [0.1, 0.12, 0.1]}
    file = written(tmp_path, "layout", asked, took={}, found={}, beside_young=turns)
    _, run = run_of("P7", file)
    assert run.medians["old"]["seconds_of_young"] == 1.5
    with pytest.raises(Unfit):
        run_of("P6", file)


def test_tables_that_stand_still_and_starts(tmp_path):
    asked = {"tables": 10, "idle": 300, "rows": 50_000, "changes": 100}
    took = {"without": [(0.5, 1.0)], "with": [(0.6, 1.0)]}
    _, run = run_of("P8", written(tmp_path, "idle", asked, took=took))
    assert run.medians["with"]["seconds_of_without"] == 1.2
    spent = {"with": [{"wall": 5.0, "cpu": 7.0, "memory": 1}], "short": []}
    spent["without"] = [{"wall": 10.0, "cpu": 14.0, "memory": 1}]
    _, run = run_of("P9", written(tmp_path, "starts", {"rounds": 1}, took=spent))
    assert run.medians["with"] == {"seconds": 5.0, "cpu": 7.0, "seconds_of_without": 0.5}


def test_every_option_that_a_question_asks_for_is_one_of_its_benchmark():
    shared = (ROOT / "bench" / "merges.py").read_text()
    for case in (case for question in QUESTIONS for case in question.cases):
        text = (ROOT / "bench" / f"{case.bench}.py").read_text()
        text += shared if "parser_of(" in text else ""
        for name in case.asked:
            assert re.search(rf'"--{name}s?"', text), (case.bench, name)  # of several sizes, one


def test_results_that_were_measured_have_the_medians_of_their_rounds():
    for run in (run for one in QUESTIONS for run in load(one.name).runs.values()):
        for who, measures in run.rounds.items():
            for name, several in measures.items():
                assert run.medians[who][name] == pytest.approx(median(several), rel=1e-5)


def test_a_page_with_a_part_too_few_or_too_many_is_refused():
    found = {one.name: load(one.name) for one in QUESTIONS}
    page = (ROOT / "docs" / "performance.md").read_text()
    with pytest.raises(ValueError, match="the page has parts"):
        with_results(page.replace("<!-- made: P3 -->", ""), QUESTIONS, found)
    with pytest.raises(ValueError, match="the page has parts"):
        with_results(f"{page}<!-- made: P3 -->\n<!-- end -->\n", QUESTIONS, found)


def test_figures_have_as_many_digits_as_they_can_bear():
    assert [ratio(one) for one in (1.0, 0.5, 0.137, 0.01234)] == ["1.00", "0.50", "0.137", "0.012"]
    assert [amount(one) for one in (12813.4, 999.96, 661.9, 7.994, 3)] == [
        *("12,813", "1000", "661.9", "7.994", "3"),
    ]
