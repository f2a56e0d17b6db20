"""ingest keeps Delta tables equal to a live MySQL: binlog, Debezium, Kafka, one Spark job, Delta.

The rooms of the package, top to bottom. A room imports only rooms below it (``pyproject.toml`` holds that), and a
module whose text says "Pure." imports nothing that has an effect (``tests/unit/test_rooms.py``).

===============  ================================================================================
cli, demo        the commands; a shop under traffic, two kills on purpose, and the proof
testing          what users import in tests of their own: a MySQL in memory, its log replayed into a lake
job              the process: Spark, the streaming query around the batches, how it ends
start            how a job begins: ``gather_facts`` looks (``look_at_table``: what a table holds, by its own
                 log), ``start_decision`` decides (``ahead_of_manifest``: what is finished or undone;
                 ``where_to_go_on``: what is read and taken again), ``repair`` acts; ``upgrade`` brings over
                 a lake that an earlier version has filled
batch            one micro-batch, from its offsets to the manifest's row: ``micro_batch`` is the main
                 path, ``parts`` say how much of Spark's range it takes, ``readers`` has its changes read by one ``record_reader`` after the other, ``step_cutter``
                 parts them at each DDL and TRUNCATE, ``table_applier`` brings them to the tables
recipes          one thing that streaming does each, for ``ingest recipe``
flows            streaming queries of a user's own: inputs, sinks, totals, what came late, how one goes on after a kill
observe          how far a pipeline is (``pipeline_status``), what a DDL will do (``pipeline_plan``),
                 whether the lake equals its source (``audit``), what a run tells machines (``observer``:
                 ``events``, ``metrics``, and how far behind it is: ``caught_up``)
maintenance      files put in order, old versions removed
sample, local    a world to try it on, with hostile values of every type; MySQL, Kafka and Connect
                 on this machine
source           ``mysql``, the Debezium ``connector`` and who watches it (``supervisor``); a table taken
                 again (``resync``); what stands in MySQL's own log (``binlog``)
kafka            the stream over all topics, offsets, records fetched by librdkafka; ``ports``: what a
                 batch asks of the outside
lake             what is written below the lake's folder: ``quarantine``, ``manifest``, ``engines`` (who
                 merges: an ``engine`` says whether it can, ``registry`` knows them all), ``delta``
                 (``table_handle``: what a table answers, whoever writes it; logs, statistics, deletion
                 vectors, commits made once), ``files`` (where a lake lies, storage, the lease, disks that fail),
                 ``ownership`` (which pipeline a lake belongs to)
arrow            plain records read by Arrow, in the driver or in Spark's tasks
changes          all other records, by Spark's columns: envelopes, row images, re-sent changes, one winner per key
config           the pipeline file
targets          what a change means for a table: a ``target`` says it of itself (``mirror``, or ``multiset`` without a
                 key), ``registry`` knows them all
schema           MySQL's types, DDL read (``ddl``), judged (``ddl_policy``) and followed (``evolution``),
                 versions of a table (``catalog``), the ``steps`` that a batch is cut into
model            the words that all share: positions, topics, the manifest's entry, names, errors, reasons
===============  ================================================================================

The way of a row: ``kafka`` brings the record, ``arrow`` or ``changes`` makes a change of it in the ``schema`` that was
in force, ``batch`` picks the winner of each key, ``lake.engines`` merges it as its target says, ``lake.delta`` commits
it once, and ``lake.manifest`` publishes the batch.
"""

__version__ = "0.1.0"
