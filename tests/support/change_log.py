"""What a change log means, said plainly: its rows folded, one after the other, are the table."""

from collections import Counter

from deltalake import DeltaTable

from ingest.model.topics import TableId
from ingest.sample.values import exact
from ingest.schema.change_log import IMAGES, LogColumns
from tests.support.exact import by_delta_rs

KEYS = ("epoch", "file", "pos", "row", "part")


def rows_of(path):
    """All rows of a log, as dicts."""
    return by_delta_rs(path).to_pylist()


def log_of(lake, table="d.t"):
    """The log of a table of ``ingest.testing.lake``, in the order in which it is to be read."""
    return in_order(rows_of(lake.pipeline.change_log_path(TableId.parse(table))))


def log_rows(path):
    """The same with images by the source's columns, each with the field of its type that has a value."""
    table = DeltaTable(path)
    columns = LogColumns.of(table.schema().to_json(), table.metadata().configuration)
    today = columns.today
    rows = rows_of(path)
    for row in rows:
        for name in IMAGES:
            if row[name] is not None:
                row[name] = {column: row[name][field] for column, field in today.items()}
    return rows


def frozen(image):
    """A row as something that can be counted; values that are equal only to themselves."""
    return tuple(sorted((name, exact(value)) for name, value in image.items()))


def place(row):
    return tuple(row["position"][name] for name in KEYS)


def in_order(rows):
    """Rows (dicts) as they are to be read: batch by batch, by position, what begins before the rows of its place. Rows of a snapshot share one
    place, and come in the order of their values, as that of a log's files is chance.
    """

    def key(row):
        begins = row["operation"] in ("restart", "begin")
        return row["batch_id"], place(row), not begins, repr(row["after"])

    return sorted(rows, key=key)


def folded(rows, key=(), frozen=frozen):
    """The table's rows, each with its values by field, as a ``Counter``; of a table with a key by the newest change of each."""
    keyed, bag = {}, []
    for row in in_order(rows):
        at, what = place(row), row["operation"]
        if what in ("truncate", "void"):
            keyed = {k: held for k, held in keyed.items() if held[0] >= at}
            bag = [one for one in bag if one[0] >= at]
        elif what == "restart":
            bag = [one for one in bag if one[0] > at]
        elif what in ("schema", "begin"):
            continue
        elif key:
            image = row["before"] if what == "delete" else row["after"]
            name = tuple(image[one] for one in key)
            if name in keyed and keyed[name][0] > at:
                continue
            keyed[name] = (at, None if what == "delete" else frozen(image))
        else:
            if row["before"] is not None:
                gone = frozen(row["before"])
                bag.remove(next(one for one in bag if one[1] == gone))
            if row["after"] is not None:
                bag.append((at, frozen(row["after"])))
    live = (
        (image for _, image in keyed.values() if image is not None) if key else (i for _, i in bag)
    )
    return Counter(live)


def changes(rows):
    """Those that are changes of rows."""
    return [row for row in rows if row["operation"] in ("insert", "update", "delete", "read")]
