"""One micro-batch, from its offsets to the manifest's row. The main path is `micro_batch.Batches.apply`."""
