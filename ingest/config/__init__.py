"""The pipeline file and its settings, and the files that are shipped beside the code."""
