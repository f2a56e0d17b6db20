"""Plain records read in the driver, by Arrow and without Spark: JSON to typed rows, and what they mean for their table."""
