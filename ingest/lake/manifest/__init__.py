"""The manifest, the ledger of batches: how it is read, how a batch's entry is made and written."""
