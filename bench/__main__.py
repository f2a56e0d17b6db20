"""One entry to all benchmarks: ``python -m bench WHAT …``; without a word, the table of what each answers.

``python -m bench WHAT --help`` says how each is asked. Each is a module, too: ``python -m bench.merges``.
"""

from __future__ import annotations

import runpy
import sys

BENCHES = {
    "before": "Has anything become slower since a commit? P1 drain, P2 merge, P3 many tables, P4 freshness.",
    "drains": "How long does a backlog take, from Kafka into an empty lake, beside other ways?",
    "knobs": "What does each setting do to a backlog: time, CPU, memory?",
    "torn": "How long does a batch of many DDLs take that a crash has torn?",
    "lanes": "What does a batch cost by its size, read in the driver, in Spark's tasks, or merged by Spark?",
    "merges": "How long does a batch take, into a large table or into many, beside other ways?",
    "freshness": "How old is what a reader finds, while changes come at some rate?",
    "end_to_end": "How many rows and changes a second go all the way from MySQL to Delta?",
    "batches": "Where does the time of the sample shop's batches go, stage by stage?",
    "many_tables": "How long does a batch of many small tables take, without Kafka and MySQL?",
    "many_topics": "How long does a job with hundreds of tables take to its first batch, and for each later one?",
    "volume": "How much memory does a backlog take whose rows are small and huge?",
    "flood": "How old do quiet tables become beside one with a large backlog?",
    "idle": "What do tables that stand still add to a batch?",
    "manifest": "What does the ledger of batches cost as tables, batches and closed gaps grow?",
    "layout": "What do many small batches write, how do files lie then, what does a scan take?",
    "endurance": "Does anything grow without bound, or become slower, over days of batches?",
    "reads": "How long does the driver take to read one table's part of a batch?",
    "parsers": "What does it take to notice a field that nobody expects, by hand or by a library?",
    "looks": "How long does a start look at the lake's tables?",
    "starts": "How long does Spark take to start?",
    "dedup": "What does each way to recognise re-sent changes cost?",
    "flow_price": "What do flows cost the mirrors beside them: none, a windowed one, one that fails?",
    "flow_state": "Does what a flow keeps stay level over thousands of batches?",
    "object_store": "What does a lake in an object store cost small batches, beside a local one?",
    "cluster": "What do workers of a Spark cluster bring, and what is left to the driver?",
    "soak": "Does it stay right under random kills? (A verdict, no figures.)",
}
"""What each answers. The module has the same name."""
WITHOUT_JSON = ("batches", "dedup", "flow_state", "soak")
"""They print only. All others write their figures with ``--json FILE``."""


def table() -> str:
    """A line for each benchmark."""
    width = max(map(len, BENCHES))
    lines = [f"  {name:<{width}}  {answers}" for name, answers in BENCHES.items()]
    return "\n".join(
        [
            "python -m bench WHAT [options]        (WHAT --help: its options)",
            "",
            *lines,
            "",
            "--json FILE writes figures, commit and machine; not for " + ", ".join(WITHOUT_JSON),
            "python -m bench.figures --take FILE --as P2 brings them to docs/performance.md",
        ]
    )


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(table())
        return
    what, *options = sys.argv[1:]
    if what not in BENCHES:
        sys.exit(f"there is no benchmark {what!r}\n\n{table()}")
    sys.argv = [f"python -m bench {what}", *options]
    runpy.run_module(f"bench.{what}", run_name="__main__")


if __name__ == "__main__":
    main()
