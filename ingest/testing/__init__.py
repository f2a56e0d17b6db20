"""What users import in tests of their own: a MySQL in memory, its log in any batches, a real Delta lake.

``docs/testing.md`` shows it at work. It needs the extra ``testing`` (pytest, chispa, Hypothesis), and no MySQL, Kafka
or Connect.

===============  ================================================================================
source           tables whose statements leave the log that Debezium would write
debezium         that log's records, for those who build one by hand or have recorded some
column_value     a value of Python as MySQL, Debezium and the lake have it
drawn            histories from a seed; ``strategies``: the same by Hypothesis
lake             applies records to Delta tables, in any batches, by the job's own ``Batches``
frames           asserts that DataFrames are equal, whatever the order of their rows
plugin           pytest's fixtures ``spark`` and ``lake``
===============  ================================================================================
"""
