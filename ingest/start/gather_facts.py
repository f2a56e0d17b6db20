"""Gathering the facts that a start is decided from: checkpoint, manifest, tables, Kafka.

Nothing here decides; see ``start_decision.decide``.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from pyspark.sql import SparkSession

from ingest.batch.outliving import outlives
from ingest.config.pipeline_file import Pipeline
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.files.hadoop_files import HadoopFiles
from ingest.lake.files.storage import Files
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.model.manifest import Entry, Place
from ingest.model.names import (
    IDENTITY_FILE,
    INTERNAL_FOLDER,
    REPLACED_FILE,
    checkpoint_path,
    quarantine_path,
    table_folder,
)
from ingest.model.offset_log import offsets_from_log
from ingest.model.offset_ranges import offsets_from_json
from ingest.model.position import Position
from ingest.model.start_facts import (
    WITH_STATE,
    CheckpointFacts,
    KafkaFacts,
    LakeFacts,
    StartFacts,
)
from ingest.model.topics import TableId, captured
from ingest.schema.catalog import Catalog
from ingest.start.look_at_log import look_at_log
from ingest.start.look_at_table import look

NOTHING_TOLD: Final = Catalog()


def gather(
    spark: SparkSession,
    pipeline: Pipeline,
    kafka: Mapping[Place, KafkaFacts],
    *,
    from_beginning: bool = False,
    barred: frozenset[str] = frozenset(),
    catalog: Catalog = NOTHING_TOLD,
    failed: frozenset[str] = frozenset(),
) -> StartFacts:
    """Look at everything once. ``kafka``: the topics as they are now (``broker.partitions``). ``barred``:
    tables that a policy holds before a DDL. ``catalog``: all that the schema-change topic has told of tables.
    """
    ledger = Ledger(pipeline.lake.path)
    newest = ledger.last()
    tables = _tables(spark, pipeline, ledger, newest)
    lake = [*tables, *_own(spark, pipeline, ledger, newest)]
    named = {one.name for one in tables} | {str(table) for table in catalog.versions}
    return StartFacts(
        pipeline=pipeline.name,
        shape=shape(pipeline),
        checkpoint=checkpoint_facts(HadoopFiles(spark, checkpoint_path(pipeline.lake.path))),
        newest=newest,
        history=history(ledger, lake),
        lake=lake,
        kafka=kafka,
        topic_of=topics_of(pipeline, newest, catalog.versions),
        taken=taken(pipeline, [version.table for version in catalog.current()]),
        pinned=pinned(catalog),
        from_beginning=from_beginning,
        failed=failed,
        barred=barred,
        logs=_logs(spark, pipeline, newest, named),
        untaken=_untaken(newest, pipeline.source.tables),
        by_hand=_by_hand(spark, pipeline, newest),
        ignored={
            name: frozenset(ignored)
            for name in (newest.tables if newest else {})
            if (ignored := pipeline.rules(TableId.parse(name)).ignores)
        },
    )


def history(ledger: Ledger, lake: Sequence[LakeFacts]) -> list[Entry]:
    """The newest batch, and for each table that went back the newest one of which it still holds all, with the replays
    since: a lake of a batch a second has a million rows of them within two weeks.
    """
    if (newest := ledger.last()) is None:
        return []
    found = [newest]
    sought = [one for one in lake if one.held is not None and not one.has_all_of(newest)]
    older = ledger.back(newest.batch_id)
    while sought and (entry := next(older, None)):
        left = [one for one in sought if not one.has_all_of(entry)]
        if len(left) < len(sought) or (entry.kind == "replay" and left):
            found.append(entry)
        sought = left
    return found


def _untaken(newest: Entry | None, patterns: Sequence[str]) -> frozenset[str]:
    known = {TableId.parse(name) for name in (newest.tables if newest else {})}
    return frozenset(str(table) for table in known - set(captured(known, patterns)))


def _by_hand(spark: SparkSession, pipeline: Pipeline, newest: Entry | None) -> frozenset[str]:
    """One that is hidden is read again in any case: what it waits with stays in Kafka until a reading is whole."""
    shown = {name for name, state in newest.tables.items() if not state.hidden} if newest else ()
    return frozenset(name for name in shown if outlives(spark, pipeline, TableId.parse(name)))


def shape(pipeline: Pipeline) -> str:
    """Which stateful operators the query has, as one word."""
    return WITH_STATE if pipeline.dedup.keeps_state else "stateless"


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


def taken(pipeline: Pipeline, current: Collection[TableId]) -> dict[str, str]:
    """Table name to topic, for those of the source's tables that the pipeline file takes."""
    return {str(t): pipeline.topic(t) for t in captured(current, pipeline.source.tables)}


def pinned(catalog: Catalog) -> dict[str, Position]:
    """Table name to the position of its newest snapshot, for those of the source's tables that have one."""
    here = [version.table for version in catalog.current()]
    found = {table: max(catalog.snapshots(table), default=None) for table in here}
    return {str(table): at for table, at in found.items() if at is not None}


def checkpoint_facts(checkpoint: Files) -> CheckpointFacts:
    """What is in the checkpoint folder, and what is torn or missing there."""
    if (replaced := checkpoint.read(REPLACED_FILE)) is not None:
        return CheckpointFacts(pipeline=replaced.strip() or None)
    identity = (checkpoint.read(IDENTITY_FILE) or "").split()
    offsets = sorted(int(name) for name in checkpoint.names("offsets") if name.isdigit())
    commit_log = sorted(int(name) for name in checkpoint.names("commits") if name.isdigit())
    if len(identity) != 3:
        return CheckpointFacts(batches=len(offsets))
    ends, begins, problem = None, None, ""
    for number in offsets[-2:]:
        text = checkpoint.read(f"offsets/{number}")
        if not _is_whole(text, 1):
            problem = f"its offset log for batch {number} is torn"
            break
        begins, ends = ends, offsets_from_log(text or "")
    if offsets and not problem:
        problem = _gaps(checkpoint, offsets, commit_log)
    if offsets and not problem:
        first = (checkpoint.read("sources/0/0") or "").partition("\n")[2]
        begins = ends if offsets[-1] in commit_log else begins or offsets_from_json(first)
    return CheckpointFacts(
        identity[1],
        identity[0],
        identity[2],
        len(offsets),
        ends,
        problem,
        begins,
        offsets[-1] if offsets else -1,
    )


def _gaps(checkpoint: Files, offsets: list[int], commit_log: list[int]) -> str:
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


def _logs(
    spark: SparkSession, pipeline: Pipeline, newest: Entry | None, named: Collection[str]
) -> list[LakeFacts]:
    """Change logs of these tables, where the pipeline file asks for them. What lies in the folder of one that nobody writes is not ours."""
    states, published = (newest.tables, newest.batch_id) if newest else ({}, 0)
    found = []
    for name in sorted(named):
        table, state = TableId.parse(name), states.get(name)
        if pipeline.logs(table):
            path = pipeline.change_log_path(table)
            known = state.log if state and state.log and state.log.path == path else None
            found.append(look_at_log(SparkTable(spark, path), name, known, pipeline, published))
    return found


def _tables(
    spark: SparkSession, pipeline: Pipeline, ledger: Ledger, newest: Entry | None
) -> list[LakeFacts]:
    known = {name: state.path for name, state in (newest.tables if newest else {}).items()}
    root = HadoopFiles(spark, pipeline.lake.path)
    wanted = [one for name in known if pipeline.logs(one := TableId.parse(name))]
    logs = {pipeline.change_log_path(table) for table in wanted}
    logs |= {state.log.path for state in (newest.tables if newest else {}).values() if state.log}
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
        if path in logs:
            continue  # also of a table of that name, which stands still
        facts = look(SparkTable(spark, path), names.get(folder), pipeline, ledger, newest)
        if facts is not None:
            found.append(facts)
    return found


def _own(
    spark: SparkSession, pipeline: Pipeline, ledger: Ledger, newest: Entry | None
) -> list[LakeFacts]:
    """Quarantine may hold a torn batch's part before any table does."""
    table = SparkTable(spark, quarantine_path(pipeline.lake.path))
    facts = look(table, f"{INTERNAL_FOLDER}/quarantine", pipeline, ledger, newest)
    return [facts] if facts and facts.version is not None else []
