"""Who merges a step's changes into its table, by facts: Spark, or delta-rs in the driver, as copy-on-write or
merge-on-read.
"""
