"""Tests of engine.web: the server, and the page in a real browser."""
