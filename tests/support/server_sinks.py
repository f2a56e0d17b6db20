"""What flows write to MySQL and Redis, read back."""

import json
from contextlib import closing

EACH = "SELECT word, at FROM words"
COUNTED = "SELECT word, count(*) n, max(at) newest FROM words GROUP BY word"
RESULTS = {"mysql": "counts", "connection": "results", "keys": ["word"]}
"""A sink: the table that ``flow_to_servers`` makes."""


def counts(server):
    return dict(server.sql("SELECT word, n FROM results.counts"))


def kept(redis, prefix="counts"):
    """By key: the row as JSON, or None where it is gone."""
    with closing(redis.client()) as client:
        return {
            key.removeprefix(f"{prefix}:"): json.loads(row)
            if (row := client.hget(key, "row"))
            else None
            for key in client.keys(f"{prefix}:*")
        }
