"""ingest keeps Delta tables equal to a live MySQL: binlog, Debezium, Kafka, one Spark job, Delta.

The way of a row, and the modules in the order in which it meets them:

==============  =================================================================================
source          ``connector`` makes the Debezium connector what the pipeline file says, and
                ``supervisor`` watches it; ``topics`` says which tables are taken and which topic
                carries each; ``source`` is the one Kafka stream over all of them
decode          ``envelope`` reads what all messages have, ``decode`` row images with the schema version
                in force: ``catalog`` holds the versions, ``mysql_types`` what each MySQL type becomes
order           ``position`` is the total order of changes, ``epochs`` one log after another;
                ``steps`` cuts a batch at its barriers; ``dedup`` recognises re-sent changes and picks
                one winner per key; where several changes have one place (``ties``), MySQL's own log
                says what they are (``binlog``); ``snapshots`` says what a snapshot that began again
                makes void; ``set_aside`` keeps tables away that the lake has no place for
apply           ``merge`` and ``multiset`` say what the MERGE is; ``ddl`` reads a statement, ``policy``
                says whether it is followed, ``evolve`` what it does (``defaults``: to rows that are
                there), ``pending`` finds one that no change has followed; ``second_look`` asks MySQL
                whether a changed table is what we take it for (``likeness``); ``apply`` brings it to the tables (``table``, and
                ``schema_commit`` for columns), each in its own thread and session; ``engine``
                picks who makes a MERGE (``merging``): Spark, or delta-rs in the driver
                (``direct``), where ``collected`` brings the changes of all tables; in large files
                ``marking`` marks rows as deleted (``deletion_vector``) instead
commit          ``commit`` makes each commit once, under the ``lease``, and checks its marker;
                ``read_back`` puts right what Spark says of its files (``statistics``);
                ``foreign`` tells others' commits; ``manifest`` publishes the batch;
                ``quarantine`` keeps what could not be applied, ``held_back`` what has to wait
                behind it
begin, mend     ``startup`` gathers facts, ``progress`` decides; ``ahead`` fetches what the first batch
                will read while Spark starts; ``upgrade`` brings over a lake that an earlier version has
                filled; ``resync`` takes a table again, ``retaking`` those of which it is not certain
                what they hold
observe, prove  ``changelog`` is the specification; ``ledger`` reads the manifest;
                ``progress_report`` says how far a pipeline is, ``lake_plan`` what DDL that waits will
                do; ``audit`` compares lake and source through ``fingerprint``
==============  =================================================================================

The spine is ``pipeline.Batches.apply``: one micro-batch, every stage in its order. ``run`` starts
it (``progress`` decides from where), ``config`` is the pipeline file, ``cli`` the commands,
``local`` the embedded stack, ``sample`` and ``demo`` a world to try it on; ``sample.values`` draws hostile
values of every MySQL type, for tests and for that world's traffic.
"""

__version__ = "0.1.0"
