"""Names under which users' files are imported, such as the FILE of `python -m engine run FILE`.

A file gets the name under which any program with the same `sys.path` imports it: `words` for `words.py`, `app.flows.words` for a file in
the package `app.flows`. So relative imports find the user's own modules, `getLogger(__name__)` is a logger of the user, another file that
imports this one gets the same module, and other processes load its pickled functions and classes.

Some files have no such name: the name of `my flow.1.py` has a dot, and `queue` belongs to the standard library. They are imported as
members of this module, which is a package without files. A process that loads their pickled objects imports this package first, and so gets
a finder for them.
"""

import hashlib
import importlib
import importlib.util
import re
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Final

__path__: Final[list[str]] = []  # makes this module a package, so that Python imports it before a module of a file

LOADED: Final[set[str]] = set()
"""Names of the modules of users' files that this process has loaded."""

FOLDERS: Final[set[str]] = set()
"""Folders of these files that are at the beginning of `sys.path`."""

_DIGEST_BYTES: Final = 4
_NAME: Final = re.compile(re.escape(__name__) + r"\.[a-z]+_(?P<file>\w+_[0-9a-f]{8})(?:_\d+)?")


def package_root(path: Path) -> tuple[Path, str]:
    """Return the folder above the packages that contain a file, and the dotted name of the file below this folder.

    A folder is a package if it has an `__init__.py`. path: resolved.
    """
    folder, name = path.parent, path.stem
    while (folder / "__init__.py").is_file() and folder.parent != folder:
        name = f"{folder.name}.{name}"
        folder = folder.parent
    return folder, name


def spec_of(kind: str, path: Path) -> ModuleSpec | None:
    """Return the spec of the module of a file. Imports the packages that contain the file. None if Python cannot import such a file.

    kind: the noun for the content of the file, such as `topology`. path: the resolved path, whose `package_root` is on `sys.path`.
    """
    return _importable_spec(path) or _lone_spec(_unused_name(module_name(kind, path)), path)


def _importable_spec(path: Path) -> ModuleSpec | None:
    """Return the spec of the name under which any program would import a file. None if there is no such name, or if it is taken."""
    name = package_root(path)[1]
    if "." in path.stem or name in sys.modules:
        return None
    importlib.invalidate_caches()
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if error.name and f"{name}.".startswith(f"{error.name}."):  # a package of this name is elsewhere
            return None
        raise
    return spec if spec is not None and spec.origin == str(path) else None


def module_name(kind: str, path: Path) -> str:
    """Return the name for a file that has no importable name: the same in every process, and another one for each path."""
    return f"{__name__}.{kind}_{_file_key(path)}"


def _unused_name(base: str) -> str:
    """Return this name. Only a second import in the same process gets another name."""
    name, number = base, 1
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
                    return _spec_found(fullname, file)
        return None


def _spec_found(fullname: str, file: Path) -> ModuleSpec | None:
    """Return the spec of a file. Earlier versions gave such a name to every file, and stored states have it in their pickled values."""
    name = package_root(file)[1]
    if name in sys.modules or _importable_spec(file) is not None:
        module = importlib.import_module(name)
        if getattr(module, "__file__", None) == str(file):
            return ModuleSpec(fullname, _SameModule(module), origin=str(file))
    return _lone_spec(fullname, file)


class _LoneSpec(ModuleSpec):
    """Spec of a module whose relative imports find nothing. They must not look into the engine, of which its name is a part."""

    @property
    def parent(self) -> str:
        """The package for relative imports: none."""
        return ""


def _lone_spec(name: str, path: Path) -> ModuleSpec | None:
    """Return the spec of a file under a name of `module_name`. None if Python cannot import such a file."""
    found = spec_from_file_location(name, path)
    if found is None:
        return None
    spec = _LoneSpec(name, found.loader, origin=found.origin)
    spec.has_location = found.has_location
    return spec


class _SameModule(Loader):
    """Gives a second name to a module that is loaded."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._spec = module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module."""
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its own spec back, because it has run already."""
        module.__spec__ = self._spec


sys.meta_path.append(UserFileFinder())  # last, so that it is only asked for names that nothing else finds
