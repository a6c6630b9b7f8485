"""Fixtures of the tests of engine.web, in a browser too. A test that leaves a socket open fails."""

from tests.servers.left_open import nothing_left_open
from tests.web.browser import browser, open_page, open_url, scene_servers

__all__ = ["browser", "nothing_left_open", "open_page", "open_url", "scene_servers"]
