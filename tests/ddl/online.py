"""Online schema changes as their tools make them: the statement sequences of gh-ost and of
pt-online-schema-change, with traffic in between, as their documentation and binlogs show them.

Each function changes ``table`` (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(50), n INT) to have ``n``
as BIGINT and a new column ``extra``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing

from tests.kills.lab import Lab

SHADOWS = ("_*_gho", "_*_ghc", "_*_del", "_*_new", "_*_old")
"""What the two tools call their own tables; a pipeline excludes them."""

ALTER = "ADD COLUMN extra VARCHAR(20) DEFAULT 'made by the copy', MODIFY n BIGINT"


def gh_ost(lab: Lab, table: str, traffic: Callable[[], None]) -> None:
    """gh-ost: a changelog table, a copy by chunks, changes replayed from the binlog, and a cut-over
    in which a locked sentry table makes RENAME wait.
    """
    db = lab.name
    ghost, log, old = f"{db}._{table}_gho", f"{db}._{table}_ghc", f"{db}._{table}_del"
    lab.sql(
        f"DROP /* gh-ost */ TABLE IF EXISTS {ghost}",
        f"DROP /* gh-ost */ TABLE IF EXISTS {log}",
        f"CREATE /* gh-ost */ TABLE {log} (id BIGINT UNSIGNED AUTO_INCREMENT, last_update TIMESTAMP NOT "
        "NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, hint VARCHAR(64) CHARSET ascii NOT "
        "NULL, value VARCHAR(4096) CHARSET ascii NOT NULL, PRIMARY KEY (id), UNIQUE KEY hint_uidx (hint)) "
        "AUTO_INCREMENT = 256",
        f"CREATE /* gh-ost */ TABLE {ghost} LIKE {db}.{table}",
        f"ALTER /* gh-ost */ TABLE {ghost} {ALTER}",
        f"INSERT /* gh-ost */ INTO {log} (id, hint, value) VALUES (NULLIF(2, 0), 'state', 'GhostTableMigrated')"
        " ON DUPLICATE KEY UPDATE last_update = NOW(), value = VALUES(value)",
    )
    for low in range(0, 200, 20):
        lab.sql(
            "START TRANSACTION",
            f"INSERT /* gh-ost */ IGNORE INTO {ghost} (id, v, n) (SELECT id, v, n FROM {db}.{table} FORCE "
            f"INDEX (PRIMARY) WHERE id > {low} AND id <= {low + 20} LOCK IN SHARE MODE)",
            "COMMIT",
            f"INSERT /* gh-ost */ INTO {log} (id, hint, value) VALUES (NULLIF(1, 0), 'heartbeat', '{low}') "
            "ON DUPLICATE KEY UPDATE last_update = NOW(), value = VALUES(value)",
        )
        traffic()
        _replay(lab, f"{db}.{table}", ghost)
    lab.sql(
        f"CREATE /* gh-ost */ TABLE {old} (id INT AUTO_INCREMENT PRIMARY KEY) ENGINE = InnoDB "
        "COMMENT = 'ghost-cut-over-sentry'"
    )
    with closing(lab.stack.mysql().admin()) as holder, holder.cursor() as locked:
        locked.execute(f"LOCK /* gh-ost */ TABLES {db}.{table} WRITE, {old} WRITE")
        rename = threading.Thread(
            target=lab.sql,
            args=(f"RENAME /* gh-ost */ TABLE {db}.{table} TO {old}, {ghost} TO {db}.{table}",),
        )
        rename.start()
        while not lab.sql(
            "SELECT 1 FROM information_schema.PROCESSLIST WHERE INFO LIKE 'RENAME%' AND STATE LIKE '%lock%'"
        ):
            time.sleep(0.05)
        locked.execute(f"DROP /* gh-ost */ TABLE IF EXISTS {old}")
        locked.execute("UNLOCK TABLES")
        rename.join()
    lab.sql(f"DROP /* gh-ost */ TABLE IF EXISTS {log}", f"DROP /* gh-ost */ TABLE IF EXISTS {old}")


def _replay(lab: Lab, table: str, ghost: str) -> None:
    """What gh-ost reads from the binlog and applies to its table, brought to the same end."""
    lab.sql(
        f"REPLACE /* gh-ost */ INTO {ghost} (id, v, n) SELECT o.id, o.v, o.n FROM {table} o JOIN {ghost} g "
        "ON g.id = o.id WHERE NOT (o.v <=> g.v AND o.n <=> g.n)",
        f"DELETE /* gh-ost */ FROM {ghost} WHERE id NOT IN (SELECT id FROM {table})",
        f"INSERT /* gh-ost */ IGNORE INTO {ghost} (id, v, n) SELECT id, v, n FROM {table} WHERE id > 200",
    )


def pt_osc(lab: Lab, table: str, traffic: Callable[[], None]) -> None:
    """pt-online-schema-change: a new table, three triggers, a copy by chunks, an atomic swap."""
    db = lab.name
    new, old, trigger = f"{db}._{table}_new", f"{db}._{table}_old", f"{db}.pt_osc_{db}_{table}"
    lab.sql(
        f"CREATE TABLE {new} (id INT NOT NULL AUTO_INCREMENT, v VARCHAR(50) DEFAULT NULL, n INT DEFAULT "
        "NULL, PRIMARY KEY (id))",
        f"ALTER TABLE {new} {ALTER}",
        f"CREATE TRIGGER {trigger}_del AFTER DELETE ON {db}.{table} FOR EACH ROW DELETE IGNORE FROM {new} "
        f"WHERE {new}.id <=> OLD.id",
        f"CREATE TRIGGER {trigger}_upd AFTER UPDATE ON {db}.{table} FOR EACH ROW BEGIN DELETE IGNORE FROM "
        f"{new} WHERE !(OLD.id <=> NEW.id) AND {new}.id <=> OLD.id; REPLACE INTO {new} (id, v, n) VALUES "
        "(NEW.id, NEW.v, NEW.n); END",
        f"CREATE TRIGGER {trigger}_ins AFTER INSERT ON {db}.{table} FOR EACH ROW REPLACE INTO {new} (id, v, "
        "n) VALUES (NEW.id, NEW.v, NEW.n)",
    )
    for low in range(0, 200, 20):
        lab.sql(
            f"INSERT LOW_PRIORITY IGNORE INTO {new} (id, v, n) SELECT id, v, n FROM {db}.{table} FORCE INDEX "
            f"(PRIMARY) WHERE id >= {low} AND id < {low + 20} LOCK IN SHARE MODE /*pt-online-schema-change "
            "copy nibble*/",
        )
        traffic()
    lab.sql(
        f"INSERT LOW_PRIORITY IGNORE INTO {new} (id, v, n) SELECT id, v, n FROM {db}.{table} LOCK IN SHARE MODE",
        f"ANALYZE TABLE {new} /* pt-online-schema-change */",
        f"RENAME TABLE {db}.{table} TO {old}, {new} TO {db}.{table}",
        f"DROP TABLE IF EXISTS {old}",
        *[f"DROP TRIGGER IF EXISTS {trigger}_{what}" for what in ("del", "upd", "ins")],
    )
