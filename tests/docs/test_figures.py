"""docs/performance.md's tables and pictures are those that docs/results gives, and so are README's headline figures."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from bench.figures.page import with_results
from bench.figures.pictures import picture
from bench.figures.questions import QUESTIONS
from bench.figures.results import load

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
FOUND = {one.name: load(one.name) for one in QUESTIONS}
SVG = "{http://www.w3.org/2000/svg}"
BY_NAME = pytest.mark.parametrize("question", QUESTIONS, ids=lambda one: one.name)


def drawn(name: str) -> ET.Element:
    return ET.parse(PICTURES / f"{name}.svg").getroot()  # noqa: S314 - our own file


def test_the_page_holds_what_the_results_give():
    page = (ROOT / "docs" / "performance.md").read_text()
    assert page == with_results(page, QUESTIONS, FOUND)


def test_each_question_has_a_heading_that_keeps_its_name():
    page = (ROOT / "docs" / "performance.md").read_text()
    headings = re.findall(r"^## (P\d+ .*)$", page, re.MULTILINE)
    assert [one.lower().replace(" ", "-") for one in headings] == [q.anchor for q in QUESTIONS]


def test_there_is_a_file_and_a_picture_for_each_question_and_no_other():
    names = {one.name for one in QUESTIONS}
    assert {one.stem for one in (ROOT / "docs" / "results").glob("*.json")} == names
    assert {one.stem for one in PICTURES.glob("P*.svg")} == names


@BY_NAME
def test_a_picture_is_drawn_of_the_results(question):
    described = drawn(question.name).iter("{http://purl.org/dc/elements/1.1/}description")
    wanted = picture(question, FOUND[question.name]).digest
    assert [one.text for one in described] == [f"sha256:{wanted}"], "python -m bench.figures"


@BY_NAME
def test_a_picture_says_in_words_what_the_results_give(question):
    texts = ["".join(one.itertext()) for one in drawn(question.name).iter(f"{SVG}text")]
    wanted = picture(question, FOUND[question.name])
    words = [wanted.title, wanted.axis]
    for group in wanted.groups:
        words += [group.heading] if group.heading else []
        words += [text for bar in group.bars for text in (bar.label, bar.text)]
    assert set(words) <= set(texts)
    assert wanted.answer in " ".join(texts), "the answer may have several lines"


@BY_NAME
def test_bars_are_as_long_as_their_figures(question):
    bars = [bar for group in picture(question, FOUND[question.name]).groups for bar in group.bars]
    longs = []
    for number in range(len(bars)):
        (bar,) = drawn(question.name).iterfind(f".//{SVG}g[@id='bar-{number}']/{SVG}path")
        left, right = sorted({float(x) for x in re.findall(r"[ML] ([\d.]+)", bar.get("d"))})
        longs.append(right - left)
    inch = max(longs) / max(bar.length for bar in bars)
    assert longs == pytest.approx([bar.length * inch for bar in bars], abs=0.01)


@BY_NAME
def test_ratios_are_those_of_the_medians(question):
    """Some were copied from the page, as were rounded medians: they agree as well as these are rounded."""
    looked = 0
    for case in question.cases:
        medians = FOUND[question.name].runs[case.name].medians
        assert medians.keys() == case.contestants.keys()
        for measures in medians.values():
            for name in measures:
                measure, of, base = name.partition("_of_")
                if of:
                    against = medians[case.base][measure]
                    assert case.base.removesuffix("-limited") == base
                    assert measures[name] == pytest.approx(
                        measures[measure] / against, rel=0.04, abs=0.0005
                    )
                    looked += 1
    assert looked or not any("_of_" in one.measure for one in question.columns)


@BY_NAME
def test_a_result_says_how_it_was_measured(question):
    for run in FOUND[question.name].runs.values():
        assert run.command.startswith(f"python -m bench {question.cases[0].bench}")
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", run.at)
        assert bool(run.commit) != bool(run.page)
        assert run.counted.keys() == run.medians.keys()


@pytest.mark.parametrize(
    ("name", "case", "said"),
    [
        ("P1", "one batch", ("{:.0f} s", "{:.0f} s")),
        ("P2", "a million rows", ("{:.1f} s", "{:.1f} s")),
        ("P3", "100 tables", ("{:.0f} s", "{:.1f} s")),
    ],
)
def test_the_readme_s_headline_figures_are_results(name, case, said):
    lines = (ROOT / "README.md").read_text().splitlines()
    (row,) = (one for one in lines if f"(docs/performance.md#{name.lower()}-" in one)
    took = (FOUND[name].of(case, who, "seconds") for who in ("stock", "ingest"))
    wanted = [text.format(seconds) for text, seconds in zip(said, took, strict=True)]
    assert [cell.split(",")[0].strip() for cell in row.split("|")[2:4]] == wanted


def test_the_readme_s_freshness_is_a_result():
    fresh = FOUND["P4"].of("two paces", "500", "median")
    assert f"[{fresh:.2f} s](docs/performance.md#p4-freshness)" in (ROOT / "README.md").read_text()
