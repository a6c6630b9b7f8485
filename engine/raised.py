"""What user code raised, as one line: the error's own text, and where in the user's files it came from."""

import traceback
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).resolve().parents[1]
_OURS: Final = tuple(f"{_ROOT / name}/" for name in ("engine", "spark_bridge", "_native"))
_LIBRARIES: Final = ("/site-packages/", "/lib/python", "/lib64/python", "<frozen ", "uvloop/")
_MOST_PLACES: Final = 3


def own_text(error: BaseException) -> str:
    """Return what an error says, also where its own `__str__` raises."""
    try:
        return str(error)
    except KeyboardInterrupt:
        raise
    except BaseException as second:  # noqa: BLE001 - the user's own __str__; what it raised is told instead
        return f"its text cannot be shown, {type(second).__name__}"


def raised_text(error: BaseException) -> str:
    """Return `KeyError: 'usd' (flow.py:4, from flow.py:6)`: the innermost line first, without the engine's and, where there are others,
    without the libraries' lines.
    """
    text = f"{type(error).__name__}: {own_text(error)}".rstrip(": ")
    places = user_places(error)
    return f"{text} ({', from '.join(places)})" if places else text


def user_places(error: BaseException) -> list[str]:
    """Return the last lines of user code that led to an error, the innermost first; none where the engine alone raised it."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_ours(frame.filename)]
    users = [frame for frame in frames if not any(part in frame.filename.replace("\\", "/") for part in _LIBRARIES)]
    return [f"{frame.filename}:{frame.lineno}" for frame in reversed((users or frames)[-_MOST_PLACES:])]


def _is_ours(filename: str) -> bool:
    path = filename.replace("\\", "/")
    return path.startswith(("_native/", *_OURS)) or path == "<string>"
