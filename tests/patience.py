"""How long a test waits for what must come: so long that only what hangs is late, however busy the machine is."""

from typing import Final

PATIENCE_SECS: Final = 60.0
