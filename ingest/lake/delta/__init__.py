"""Delta tables: their logs, snapshots, statistics and deletion vectors, by Spark and by delta-rs, and commits
that are made once.
"""
