"""Time that a test waits for an expected event. Only a hang lasts longer, also on a busy machine."""

from typing import Final

PATIENCE_SECS: Final = 60.0
