"""The child: a process that holds a Spark session and calls functions for the engine's process. Needs pyspark, and no engine."""
