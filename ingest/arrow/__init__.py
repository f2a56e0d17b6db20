"""The same for plain records in the driver, by Arrow and without Spark."""
