"""`StreamReplacement` takes the place of a standard stream, and answers like it."""

import io
from typing import Any, TextIO


class StreamReplacement(io.TextIOBase):
    """Base of a text stream in place of another one, whose terminal, descriptor and encoding it has. A subclass writes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def isatty(self) -> bool:
        """Tell whether the replaced stream is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Return the descriptor of the replaced stream, for code that writes to the descriptor directly."""
        return self._stream.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Return the encoding of the replaced stream."""
        return self._stream.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        """Return the name of the handler for characters that the encoding lacks. Libraries make their own streams with it."""
        return self._stream.errors

    def __getattr__(self, name: str) -> Any:
        """Return `buffer`, `reconfigure` and the like of the replaced stream."""
        return getattr(self._stream, name)
