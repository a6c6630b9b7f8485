"""Servers of the combinations."""

from tests.transactional.kills.conftest import nothing_left_open, redis, servers

__all__ = ["nothing_left_open", "redis", "servers"]
