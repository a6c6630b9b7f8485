"""Tests of bolts in processes (PR-1 to PR-3)."""
