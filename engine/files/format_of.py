"""Chooses the format of a `FileSpout`, and finds the columns of CSV files (FI-1)."""

from engine.errors import UsageError
from engine.files.content import open_content
from engine.files.csv_format import CsvFormat, header_in
from engine.files.formats import JsonLineFormat, LineFormat, RowFormat
from engine.files.listing import Listing
from engine.files.regular_file import open_file
from engine.files.rows import BEGINNING_BYTES
from engine.files.settings import FileSettings


def format_of(settings: FileSettings, listing: Listing) -> RowFormat:
    """Return the format of the settings. Reads the header of the first CSV file if they name no columns."""
    if settings.format == "lines":
        return LineFormat(settings, settings.fields or ("line",))
    if settings.format == "jsonl":
        return JsonLineFormat(settings, settings.fields or ("record",))
    return CsvFormat(settings, settings.fields or _columns(settings, listing))


def _columns(settings: FileSettings, listing: Listing) -> list[str]:
    why = "there is no file yet"
    for found in listing.files().values():
        file = open_file("", found.path)
        if file is None:
            continue
        content = open_content(file)
        try:
            data = content.read(0, BEGINNING_BYTES)
        finally:
            content.close()
        header = header_in(data, settings, at_end=len(data) < BEGINNING_BYTES)
        if header is not None:
            return header[0]
        why = f"file {found.name!r} has no header"
    paths = ", ".join(map(repr, settings.paths))
    raise UsageError(
        f"FileSpout: the columns of {paths} are unknown: {why}", hint="Write fields=(...) with their names, or correct the path."
    )
