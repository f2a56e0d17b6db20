"""Recipes that need the real stack, as a user runs them."""

import re


def rows(said):
    """Of the last table on the screen."""
    return re.findall(r"^(\S+) +(\S+)(?: +(\S+))? *$", said, re.MULTILINE)


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
