"""`ahead.expected`: the ranges that a first batch is likely to have."""

from hypothesis import given
from hypothesis import strategies as st

from ingest.config.pipeline_file import parse
from ingest.kafka import prefetch
from ingest.kafka.prefetch import Ahead, expected
from ingest.model.start_facts import KafkaFacts


def there(**partitions):
    return {(name, 0): KafkaFacts(low, end, "id") for name, (low, end) in partitions.items()}


def test_a_batch_goes_on_where_the_last_one_ended_and_takes_what_is_there():
    ranges = expected({("a", 0): 7}, there(a=(5, 20), b=(3, 9)), 1000)
    assert ranges == {("a", 0): (7, 20), ("b", 0): (3, 9)}


def test_nothing_is_expected_of_a_partition_that_lost_records_was_made_again_or_has_none():
    ends = {("lost", 0): 4, ("again", 0): 30, ("done", 0): 9}
    assert expected(ends, there(lost=(5, 20), again=(0, 20), done=(0, 9)), 1000) == {}


def test_a_limit_is_shared_out_equally_and_who_has_less_gets_all_of_it():
    ranges = expected({}, there(a=(0, 900), b=(0, 90), c=(0, 10)), 50)
    assert ranges == {("a", 0): (0, 20), ("b", 0): (0, 20), ("c", 0): (0, 10)}


@given(
    st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), min_size=1, max_size=8),
    st.integers(1, 10**9),
)
def test_no_range_goes_beyond_what_is_there_and_all_of_them_hardly_beyond_the_limit(sizes, limit):
    facts = {(f"t{n}", 0): KafkaFacts(low, low + size, "") for n, (low, size) in enumerate(sizes)}
    ranges = expected({}, facts, limit)
    assert ranges.keys() == {place for place in facts if facts[place].earliest < facts[place].end}
    for place, (start, end) in ranges.items():
        assert facts[place].earliest == start < end <= facts[place].end
    assert sum(end - start for start, end in ranges.values()) <= limit + len(ranges)


class Remembered:
    """A consumer that says which password it was made with; all of them in ``made``."""

    made: list["Remembered"]

    def __init__(self, settings):
        self.password, self.left = settings["sasl.password"], False
        self.made.append(self)

    def records(self, ranges, enough, keyed):
        assert not self.left
        yield self.password

    def close(self):
        self.left = True


def test_a_job_that_runs_goes_on_with_the_password_that_is_in_the_file_now(tmp_path, monkeypatch):
    monkeypatch.setattr(Remembered, "made", [], raising=False)
    monkeypatch.setattr(prefetch, "Fetcher", Remembered)
    monkeypatch.setattr(prefetch.broker, "topic_ids", lambda *_: {})
    secret = tmp_path / "secret"
    secret.write_text("old")
    ahead = Ahead(
        parse(f"""
name: p
source: {{mysql: "mysql://u@h", password: {{env: X}}, tables: ["d.*"]}}
kafka:
  bootstrap_servers: "127.0.0.1:1"
  security: {{mechanism: SCRAM-SHA-256, user: u, password: {{file: {secret}}}}}
connect: {{url: "http://c:1"}}
lake: {{path: /nowhere}}
""")
    )
    assert list(ahead.records({})) == ["old"]
    assert list(ahead.records({})) == ["old"]
    secret.write_text("new")
    assert list(ahead.records({})) == ["new"]
    secret.unlink()  # as for a moment, while somebody puts another in its place
    assert list(ahead.records({})) == ["new"]
    ahead.close()
    assert [(one.password, one.left) for one in Remembered.made] == [("old", True), ("new", True)]
