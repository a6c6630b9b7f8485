"""How an error of the engine looks to a person: its text, where it came from, the fix; a traceback only for our own bugs."""

import os
import traceback

from engine.cli.output import standard_error, tell
from engine.errors import EngineBug, EngineError


def show_error(error: EngineError) -> None:
    """Write an error to standard error."""
    colors = standard_error().isatty() and "NO_COLOR" not in os.environ
    text = error_text(error)
    if colors:
        text = text.replace("Error:", "\x1b[1;31mError:\x1b[0m", 1).replace("\nFix:", "\n\x1b[1;32mFix:\x1b[0m")
    tell(text)


def error_text(error: EngineError) -> str:
    """Return `Error: …`, the notes, and `Fix: …` where the message does not hold its fixes already."""
    lines = [f"Error: {error.message}", *(f"  {note}" for note in getattr(error, "__notes__", ()))]
    if isinstance(error, EngineBug):
        lines.append("".join(traceback.format_exception(error)).rstrip())
    if error.hint:
        lines.append(f"Fix: {error.hint}")
    return "\n".join(lines)
