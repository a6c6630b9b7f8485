"""Oracles: slow models of parts of the engine, each built another way than the part."""
