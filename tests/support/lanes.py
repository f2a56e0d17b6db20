"""Every way in which a batch's plain changes are read and merged: the pipeline file's settings, and what the manifest calls it."""

LANES = {
    "driver": ({"lane": "driver"}, "driver"),
    "tasks, rows to the driver": ({"lane": "spark"}, "tasks"),
    "driver, merged by Spark": ({"lane": "driver", "merge_engine": "spark"}, "driver"),
    "tasks, rows kept in Spark": ({"lane": "spark", "merge_engine": "spark"}, "tasks"),
    "tasks, rows that Spark folds": ({"lane": "spark", "merge_engine": "spark"}, "tasks"),
    "columns": ({"lane": "columns", "merge_engine": "spark"}, "columns"),
}
