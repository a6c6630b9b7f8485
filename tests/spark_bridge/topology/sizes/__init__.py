"""Memory of the engine's process and of Spark's driver, by the size of a batch (CL-5)."""
