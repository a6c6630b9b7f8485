"""Tests of engine.files."""
