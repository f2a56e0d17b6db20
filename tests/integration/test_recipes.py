"""Recipes that need the real stack, as a user runs them."""

import re
from contextlib import closing

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ingest.recipes.stage import empty_topic
from tests.outside import packages


def rows(said):
    """Of the last table on the screen."""
    return re.findall(r"^(\S+) +(\S+)(?: +(\S+))? *$", said, re.MULTILINE)


@pytest.mark.long  # what Kafka does not lose the kill matrix's slice shows
def test_a_socket_loses_what_was_read_and_not_written_and_kafka_does_not(cli):
    done = cli("recipe", "unreliable")
    assert done.returncode == 0, done.stderr
    found = rows(done.stdout)
    assert ("socket", "50", "50") in found
    assert ("Kafka", "100", "0") in found


def test_twenty_lines_copy_a_table(cli):
    done = cli("recipe", "one-table")
    assert done.returncode == 0, done.stderr
    assert rows(done.stdout)[-2:] == [("1", "first", ""), ("2", "changed", "")]


@pytest.mark.long
def test_four_ways_to_write_a_batch_make_three_counts(cli):
    done = cli("recipe", "error-counts")
    assert done.returncode == 0, done.stderr
    for way, said in (
        ("transactional", "1,500   each once"),
        ("idempotent", "1,500   each once"),
        ("at least once", "1,750   250 twice"),
        ("at most once", "1,250   250 lost"),
        ("each line, map-only", "1,500   each once"),
    ):
        assert re.search(rf"^{way} +{said} *$", done.stdout, re.MULTILINE), done.stdout
    assert 'behind batch 6, at {"recipe-error-lines":{"0":6000}}' in done.stdout


@pytest.mark.long  # totals behind a kill: tests/spark/flows/test_totals.py
def test_revenue_is_that_of_mysql_s_own_select_behind_cancellations_too(cli):
    done = cli("recipe", "revenue")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("MySQL's own SELECT says the same") == 2, done.stdout


@pytest.mark.long
def test_redis_has_the_latest_and_never_goes_back(cli):
    packages_of_redis = str(packages.installed("redis"))
    done = cli("recipe", "latest-in-redis", env={"PYTHONPATH": packages_of_redis})
    assert done.returncode == 0, done.stderr
    assert "Redis holds what MySQL does; the deleted key is gone" in done.stdout


def test_a_recipe_s_topic_is_empty_whatever_was_there_before(stack):
    broker = stack.kafka().bootstrap_servers
    for many in (3, 2):
        empty_topic(broker, "recipe-again")
        producer = Producer({"bootstrap.servers": broker})
        for number in range(many):
            producer.produce("recipe-again", value=str(number))
        assert producer.flush(30) == 0
        with closing(Consumer({"bootstrap.servers": broker, "group.id": "again"})) as consumer:
            held = consumer.get_watermark_offsets(TopicPartition("recipe-again", 0), timeout=30)
        assert held == (0, many)
