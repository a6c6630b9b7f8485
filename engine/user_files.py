"""Package of the modules of users' files, which `python -m engine run FILE` imports. It has no files of its own.

A pickled function or class is stored as the name of its module and its own name. Any process that imports this name imports this package
first, and so gets a finder for the file. The finder looks into the folders of `sys.path`. A child process of `multiprocessing` has the
`sys.path` of its parent, which contains the folder of the file.
"""

import hashlib
import re
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Final

__path__: Final[list[str]] = []  # makes this module a package, so that Python imports it before a module of a file

_DIGEST_BYTES: Final = 4
_NAME: Final = re.compile(re.escape(__name__) + r"\.[a-z]+_(?P<file>\w+_[0-9a-f]{8})(?:_\d+)?")


def module_name(kind: str, path: Path) -> str:
    """Return the name of the module of a file: the same in every process, and another one for each path.

    kind: the noun for the content of the file, such as `topology`. path: the resolved path.
    """
    return f"{__name__}.{kind}_{_file_key(path)}"


def unused_module_name(kind: str, path: Path) -> str:
    """Return the name of the module of a file. Only a second import in the same process gets another name."""
    base = name = module_name(kind, path)
    number = 1
    while name in sys.modules:
        number += 1
        name = f"{base}_{number}"
    return name


def _file_key(path: Path) -> str:
    """Return the stem of a file with a digest of the whole path. The key has no dot, because a dotted name would be a submodule."""
    stem = re.sub(r"\W", "_", path.stem)
    return f"{stem}_{hashlib.blake2b(str(path).encode(errors='surrogateescape'), digest_size=_DIGEST_BYTES).hexdigest()}"


class UserFileFinder(MetaPathFinder):
    """Finds the file of a name that `module_name` made, in the folders of `sys.path`."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the spec of the module. None for any other name, and if the file is not there."""
        found = _NAME.fullmatch(fullname)
        if found is None:
            return None
        for folder in sys.path:
            for file in Path(folder).resolve().glob("*.py"):
                if _file_key(file) == found["file"]:
                    return spec_from_file_location(fullname, file)
        return None


sys.meta_path.append(UserFileFinder())  # last, so that it is only asked for names that nothing else finds
