"""Gathering the facts that a start is decided from: checkpoint, manifest, tables, Kafka.

Nothing here decides; see ``start_decision.decide``.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence

from pyspark.sql import SparkSession

from ingest.config.pipeline_file import Pipeline
from ingest.lake.delta import other_writers
from ingest.lake.delta.delta_rs_table import within_reach
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.delta.table_handle import TableHandle
from ingest.lake.files.storage import Storage
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.model.manifest import Entry, Place
from ingest.model.names import (
    INTERNAL_FOLDER,
    SOURCE_PROPERTIES,
    Marker,
    app_id_parts,
    checkpoint_path,
    quarantine_path,
    table_folder,
)
from ingest.model.offset_log import offsets_from_log
from ingest.model.start_facts import CheckpointFacts, KafkaFacts, LakeFacts, StartFacts
from ingest.model.topics import TableId, captured

_BLOCK = 200
"""Rows of the manifest that are read together."""

IDENTITY_FILE = "ingest.identity"
"""Inside the checkpoint: pipeline name, checkpoint id and the query's shape. Gone with it."""


def gather(
    spark: SparkSession,
    pipeline: Pipeline,
    kafka: Mapping[Place, KafkaFacts],
    *,
    from_beginning: bool = False,
    barred: frozenset[str] = frozenset(),
    streamed: Collection[TableId] = (),
    failed: frozenset[str] = frozenset(),
) -> StartFacts:
    """Look at everything once. ``kafka``: the topics as they are now (``broker.partitions``). ``barred``:
    tables that a policy holds before a DDL. ``streamed``: all that the schema-change topic names.
    """
    ledger = Ledger(pipeline.lake.path)
    newest = ledger.last()
    lake = [*_tables(spark, pipeline, newest), *_own(spark, pipeline)]
    return StartFacts(
        pipeline=pipeline.name,
        shape=shape(pipeline),
        checkpoint=checkpoint_facts(Storage(spark, checkpoint_path(pipeline.lake.path))),
        newest=newest,
        history=_history(ledger, lake),
        lake=lake,
        kafka=kafka,
        topic_of=topics_of(pipeline, newest, streamed),
        from_beginning=from_beginning,
        failed=failed,
        barred=barred,
        untaken=_untaken(newest, pipeline.source.tables),
        ignored={
            name: frozenset(ignored)
            for name in (newest.tables if newest else {})
            if (ignored := pipeline.rules(TableId.parse(name)).ignores)
        },
    )


def _history(ledger: Ledger, lake: Sequence[LakeFacts]) -> list[Entry]:
    """The newest batch, and for each table that was restored the newest one of which it still holds all: a lake
    of a batch a second has a million rows of them within two weeks.
    """
    found = block = ledger.entries(1)
    sought = {
        one.name: one.foreign.restored_to
        for one in lake
        if one.foreign and one.foreign.restored_to is not None
    }
    while block and sought:
        for entry in block:
            held = {name: state.version for name, state in entry.tables.items()}
            here = [name for name, to in sought.items() if name in held and held[name] <= to]
            found = [*found, entry] if here else found
            sought = {name: to for name, to in sought.items() if name not in here}
        block = ledger.entries(_BLOCK, below=block[-1].batch_id)
    return found


def _untaken(newest: Entry | None, patterns: Sequence[str]) -> frozenset[str]:
    known = {TableId.parse(name) for name in (newest.tables if newest else {})}
    return frozenset(str(table) for table in known - set(captured(known, patterns)))


def shape(pipeline: Pipeline) -> str:
    """Which stateful operators the query has, as one word."""
    return "deduplicated" if pipeline.dedup.keeps_state else "stateless"


def topics_of(
    pipeline: Pipeline, newest: Entry | None, streamed: Collection[TableId] = ()
) -> dict[str, str]:
    """Table name to topic, for every table that the manifest knows, and for those of ``streamed`` whose topic was read
    but that have no row in the lake: set aside, or with all of their changes in quarantine.
    """
    if newest is None:
        return {}
    found = {name: pipeline.topic(TableId.parse(name)) for name in newest.tables}
    unknown = {topic for topic, _ in newest.ends} - set(found.values())
    more = {str(table): pipeline.topic(table) for table in sorted(streamed)}
    return found | {name: topic for name, topic in more.items() if topic in unknown}


def checkpoint_facts(checkpoint: Storage) -> CheckpointFacts:
    """What is in the checkpoint folder, and what is torn or missing there."""
    identity = (checkpoint.read(IDENTITY_FILE) or "").split()
    offsets = sorted(int(name) for name in checkpoint.names("offsets") if name.isdigit())
    commit_log = sorted(int(name) for name in checkpoint.names("commits") if name.isdigit())
    if len(identity) != 3:
        return CheckpointFacts(batches=len(offsets))
    ends, problem = None, ""
    for number in offsets[-2:]:
        text = checkpoint.read(f"offsets/{number}")
        if not _is_whole(text, 1):
            problem = f"its offset log for batch {number} is torn"
            break
        ends = offsets_from_log(text or "")
    if offsets and not problem:
        problem = _gaps(checkpoint, offsets, commit_log)
    return CheckpointFacts(identity[1], identity[0], identity[2], len(offsets), ends, problem)


def _gaps(checkpoint: Storage, offsets: list[int], commit_log: list[int]) -> str:
    newest = offsets[-1]
    if not _is_whole(checkpoint.read("metadata"), 0):
        return "its metadata file is missing or torn"
    if offsets != list(range(offsets[0], newest + 1)):
        return "its offset log has a hole"
    if not set(offsets[:-1]) <= set(commit_log):
        return "its commit log has a hole"
    if commit_log and commit_log[-1] > newest:
        return "its offset log ends before its commit log"
    for number in commit_log[-2:]:
        if not _is_whole(checkpoint.read(f"commits/{number}"), 1):
            return f"its commit log for batch {number} is torn"
    if not _is_whole(checkpoint.read("sources/0/0"), 1):
        return "its note of the first offsets is missing or torn"
    return ""


def _is_whole(text: str | None, skipped: int) -> bool:
    """True when every line after the first ``skipped`` (a version) is JSON, and there is one."""
    lines = (text or "").splitlines()[skipped:]
    try:
        return bool(lines) and all(isinstance(json.loads(line), dict) for line in lines)
    except json.JSONDecodeError:
        return False


def _tables(spark: SparkSession, pipeline: Pipeline, newest: Entry | None) -> list[LakeFacts]:
    known = {name: state.path for name, state in (newest.tables if newest else {}).items()}
    root = Storage(spark, pipeline.lake.path)
    folders = {path.removeprefix(f"{pipeline.lake.path.rstrip('/')}/") for path in known.values()}
    tables = {name: TableId.parse(name) for name in known}
    names = {table_folder(table.database, table.name): name for name, table in tables.items()}
    for database in root.names(""):
        if database == INTERNAL_FOLDER or database.startswith("."):
            continue
        for table in root.names(database):
            if root.exists(f"{database}/{table}/_delta_log"):
                folders.add(f"{database}/{table}")
    found = []
    for folder in sorted(folders):
        path = f"{pipeline.lake.path.rstrip('/')}/{folder}"
        name = names.get(folder)
        facts = _look(SparkTable(spark, path), name, pipeline, newest)
        if facts is not None:
            found.append(facts)
    return found


def _own(spark: SparkSession, pipeline: Pipeline) -> list[LakeFacts]:
    """Quarantine may hold a torn batch's part before any table does."""
    table = SparkTable(spark, quarantine_path(pipeline.lake.path))
    facts = _look(table, f"{INTERNAL_FOLDER}/quarantine", pipeline, None)
    return [facts] if facts and facts.version is not None else []


def _look(
    table: SparkTable, name: str | None, pipeline: Pipeline, newest: Entry | None
) -> LakeFacts | None:
    if not table.exists():
        return LakeFacts(name, table.path, None) if name else None
    name = name or next(filter(None, map(table.property_of, SOURCE_PROPERTIES)), None)
    if name is None:
        return None  # somebody else's table below our root: none of our business
    state = newest.tables.get(name) if newest else None
    # Without Spark where it can be: a hundred tables take two seconds, and minutes cold (docs/performance.md).
    log: TableHandle = within_reach(table, pipeline.lake.path) or table
    version = log.version()
    known = state.version if state else -1
    if name.startswith(f"{INTERNAL_FOLDER}/"):
        known = max(known, version - 8)  # a batch adds one version to it, a take-over another
    happened = other_writers.since(log, known)
    # Commits that the manifest knows are of batches that are published; only those after it say more.
    left = table.markers() if happened.markers is None else happened.markers
    markers = furthest(pipeline.name, left)
    return LakeFacts(name, table.path, version, log.id(), markers, happened.note, happened.foreign)


def furthest(pipeline: str, left: Mapping[str, int]) -> dict[tuple[str, str], Marker]:
    """(checkpoint id, role) to the marker of ours that is furthest on, whoever made it: in the quarantine several tables
    have one of each. ``left``: app id to ``txnVersion``.
    """
    found = dict[tuple[str, str], Marker]()
    for app, version in left.items():
        parts = app_id_parts(app)
        if parts and parts[0] == pipeline:
            of, marker = (parts[1], parts[3]), Marker.parse(version)
            found[of] = max(found.get(of, marker), marker, key=lambda one: one.place)
    return found
