"""Kills of an engine and a pipeline behind it, with a check of each sink at the end. Read `flow` first, then `rounds`."""
