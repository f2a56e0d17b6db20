"""A shop whose orders, customers and lines change by lot, its lake, and a flow of totals over it."""

import random
from decimal import Decimal

from ingest.flows.flow_folder import FlowFolder
from ingest.flows.flow_query import FlowQuery
from ingest.lake.delta.commit import Committer, sibling
from ingest.testing.source import Source
from tests.support.flows import OneFlow

ORDERS = {"id": "INT", "customer": "INT", "status": "VARCHAR(9)", "amount": "DECIMAL(9,2)"}


CUSTOMERS = {"id": "INT", "region": "VARCHAR(9)"}


LINES = {"id": "INT", "ordered": "INT", "many": "INT"}


JOINED = """SELECT c.region, o.amount, o.status FROM orders o JOIN customers c ON c.id = o.customer
WHERE o.status <> 'cancelled'"""


SUMS = {
    "orders": "count(*)",
    "told": "count(amount)",
    "revenue": "sum(amount)",
    "mean": "avg(amount)",
}


ODD = {"biggest": "max(amount)", "kinds": "count(DISTINCT status)", "revenue": "sum(amount)"}


class Shop:
    """A source of three tables, its lake, and a flow of totals over it."""

    def __init__(
        self,
        spark,
        folder,
        logged,
        function,
        totals,
        seed=1,
        inputs=("orders", "customers"),
        **settings,
    ):
        self.rng, self.spark = random.Random(seed), spark
        self.source, self.lake = Source(), logged()
        self.orders = self.source.table("d.orders", ORDERS, ["id"], rows=[])
        self.customers = self.source.table("d.customers", CUSTOMERS, ["id"], rows=[])
        self.lines = self.source.table("d.lines", LINES, ["id"], rows=[])
        self.ids = {"orders": set(), "customers": set(), "lines": set()}
        self.next = 1
        self.change(40)
        self.lake.follow(self.source)
        given = {name: {"change_log": f"d.{name}"} for name in inputs}
        self.given = {"inputs": given, "totals": {"by": ["region"], "values": totals}, **settings}
        self.flow = OneFlow(spark, folder, function, **self.given)
        self._place()

    def _place(self):
        more = {"flows": self.flow.pipeline.flows, "connections": self.flow.pipeline.connections}
        self.flow.pipeline = self.lake.pipeline.model_copy(update=more)

    def again(self, function, **settings):
        self.flow.change(function, **{**self.given, **settings})
        self._place()

    def change(self, many):
        for _ in range(many):
            table = self.rng.choice(["orders", "orders", "customers", "lines"])
            row = {
                "orders": lambda: {
                    "customer": self.rng.choice([1, 2, 3, None]),
                    "status": self.rng.choice(["new", "paid", "cancelled"]),
                    "amount": self.rng.choice(
                        [None, Decimal(self.rng.randrange(-999, 9999)) / 100]
                    ),
                },
                "customers": lambda: {"region": self.rng.choice(["north", "Süd", None])},
                "lines": lambda: {"ordered": self.rng.randrange(20), "many": self.rng.randrange(9)},
            }[table]()
            at, ids = getattr(self, table), self.ids[table]
            if ids and self.rng.random() < 0.6:
                id_ = self.rng.choice(sorted(ids))
                if self.rng.random() < (0.1 if table == "customers" else 0.4):
                    at.delete(id_)
                    ids.discard(id_)
                else:
                    at.update(id_, **row)
            else:
                id_ = self.next if table != "customers" else self.rng.choice([1, 2, 3])
                if id_ in ids:
                    continue
                at.insert(id=id_, **row)
                ids.add(id_)
                self.next += 1

    def step(self, many=25):
        self.change(many)
        self.lake.follow(self.source)

    def shown(self, name):
        rows = self.flow.rows(name)
        return sorted(
            str({key: row[key] for key in row if not key.startswith("__")}) for row in rows
        )

    def audit(self):
        """How many rows differ from Spark's own GROUP BY over the tables now."""
        folder = FlowFolder(self.flow.pipeline, "f")
        query = FlowQuery(
            sibling(self.spark), folder, self.flow.pipeline.flows["f"], Committer(1), print
        )
        cut, many, _ = query.audit(5)
        assert cut.batch == self.lake.batches.newest.batch_id
        return many
