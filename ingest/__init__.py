"""ingest"""

__version__ = "0.1.0"
