"""Who merges a step's changes into its table: an ``engine`` says of facts whether it can, ``engine_choice`` takes the
first of the ``registry`` that can, ``dispatch`` has it merge once. Two engines: delta-rs in the driver, in the modes
copy-on-write and merge-on-read, and Spark.
"""
