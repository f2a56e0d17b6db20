"""The process: Spark, the streaming query around the batches, and how it ends."""
