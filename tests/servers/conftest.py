"""Tests of servers fail if they leave a socket open."""

from tests.servers.left_open import nothing_left_open

__all__ = ["nothing_left_open"]
