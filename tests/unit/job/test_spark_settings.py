"""`spark_session`: what a session is begun with."""

import pytest

from ingest.job.spark_session import collector, trying_again


@pytest.mark.parametrize(
    ("master", "begun"),
    [
        ("local", "local[1, 4]"),
        ("local[2]", "local[2, 4]"),
        ("local[*]", "local[*, 4]"),
        ("local[2, 1]", "local[2, 1]"),
        ("spark://host:7077", "spark://host:7077"),
    ],
)
def test_a_task_on_one_machine_is_tried_again_unless_the_master_says_how_often(master, begun):
    assert trying_again(master) == begun


@pytest.mark.parametrize(
    ("master", "named"),
    [
        ("local", "Serial"),
        ("local[2]", "Serial"),
        ("local[3]", "Parallel"),
        ("local[*]", "Serial"),
        ("spark://host:7077", "Parallel"),
    ],
)
def test_the_heap_stays_as_small_as_what_lives_in_it_where_there_are_few_cores(
    monkeypatch, master, named
):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert collector(master) == f"-XX:+Use{named}GC"
