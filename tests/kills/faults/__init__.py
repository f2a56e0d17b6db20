"""Faults between MySQL and the lake, each brought about for real and each ended without a human.

    python -m tests.kills.faults [--only resync_keyed] [--list]

One pipeline and one stack for all of them; after each, the lake is what MySQL says.
"""

from tests.kills.faults import clock, kafka_side, lake, processes, source
from tests.kills.faults.act import FAULTS

__all__ = ["FAULTS", "clock", "kafka_side", "lake", "processes", "source"]
