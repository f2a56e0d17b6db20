"""Power cuts: what a job did to the disk is recorded, rebuilt as of any moment, and started from."""
