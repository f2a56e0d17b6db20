"""The sample shop's traffic."""

import threading
from concurrent.futures import ThreadPoolExecutor

from ingest.sample import world
from ingest.sample.traffic import Traffic


def test_transactions_that_meet_in_a_deadlock_do_not_end_the_traffic(mysql):
    world.create(mysql.connect().cursor())
    never = threading.Event()
    several = [Traffic(mysql.connect, seed=seed, per_second=1e6) for seed in range(4)]
    with ThreadPoolExecutor(len(several)) as pool:
        list(pool.map(lambda traffic: traffic.run(never, limit=250), several))
    assert [traffic.transactions for traffic in several] == [250] * len(several)
    mysql.sql("DROP DATABASE shop")
