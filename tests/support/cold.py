"""Spark settings for processes that live for minutes, mostly cold."""

CONF = {
    # What the second compiler and generated code would gain, they cost first: a third of a cold
    # batch is Janino. The demo and the soak run with what users get.
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
