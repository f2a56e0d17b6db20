"""What a table is at each position of the log: MySQL's types, DDL read and judged, schema versions, and the
steps that a batch is cut into.
"""
