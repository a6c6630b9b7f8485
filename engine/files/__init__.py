"""Reads the rows of files: lines, JSON lines and CSV, plain or compressed (FI-1 to FI-9).

`spout` has the class for users, `settings` its options. In the thread of the event loop `formats` and `csv_format` turn bytes into `rows`,
`in_flight` keeps those without a verdict, `progress` knows the position. `read_ahead` calls the `reader` in a thread: it follows the files
of a `listing`, finds those of a position again (`recognition`), and reads each as an `input_file`, whose `content` may be compressed.
`folder`, `regular_file` and `encodings` also serve the transactional spouts.
"""

from typing import TYPE_CHECKING

from engine.lazy_names import lazy_names

if TYPE_CHECKING:
    from engine.files.settings import FileOptions, FileSettings
    from engine.files.spout import FileSpout
else:  # lazy, because the transactional spouts import modules of this package
    __getattr__, __dir__ = lazy_names(__name__, {"engine.files.settings": "FileOptions FileSettings", "engine.files.spout": "FileSpout"})

__all__ = ["FileOptions", "FileSettings", "FileSpout"]
