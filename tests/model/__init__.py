"""Models of parts of the engine: slow, simple, and built another way than the part. Tests compare both."""
