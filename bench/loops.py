"""The event loop that every measured run uses: uvloop where it is installed, as the engine's own default."""

import asyncio


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a new loop."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
