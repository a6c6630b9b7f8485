"""Files of the page. The folder is read once at the import, so a request can name only these files."""

from collections.abc import Mapping
from importlib.resources import files
from typing import Final, NamedTuple

MEDIA_TYPES: Final[Mapping[str, str]] = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
}
"""Files with other suffixes are not served."""
INDEX: Final = "index.html"


class StaticFile(NamedTuple):
    """One file of the page."""

    media_type: str
    content: bytes


def _read_all() -> dict[str, StaticFile]:
    found = {}
    for file in files(__package__).joinpath("static").iterdir():
        media_type = MEDIA_TYPES.get("." + file.name.rpartition(".")[2])
        if media_type is not None and file.is_file():
            found[file.name] = StaticFile(media_type, file.read_bytes())
    return found


STATIC_FILES: Final[Mapping[str, StaticFile]] = _read_all()
"""Files by name. No name has a slash."""
