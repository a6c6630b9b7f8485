"""Imports Python files that the user names, and explains why a file cannot be read.

A Python file is imported as a module of the user's: with its own folder on `sys.path`, like a script, and as a member of its package if
its folder has an `__init__.py`, but not as `__main__`. Errors name the file, the line and the fix. The caller chooses the class of these
errors.
"""

import importlib.util
import os
import stat
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final

from engine.errors import ConfigError, EngineError, TopologyError
from engine.names import nearest
from engine.user_files import FOLDERS, LOADED, package_root, spec_of

INSTALL_IT: Final = ". Install it: "
"""Separates the text of a ModuleNotFoundError of our own packages from the command that installs the missing package."""
_SUFFIX: Final = ".py"
_PREFIXES_OF_OTHER_CODE: Final = (
    "<string>",
    *(str(Path(__file__).resolve().parents[3] / name) + os.sep for name in ("engine", "spark_bridge")),
)
"""File names of traceback frames that are not user code. These frames are generated methods of dataclasses, and our own packages."""


def split_spec(spec: str, error: type[EngineError]) -> tuple[Path, str | None]:
    """Split `path.py[:name]` into path and name. Raise `error` for a colon without a name.

    >>> split_spec("flows/words.py:word-count", EngineError)[1]
    'word-count'
    """
    head, colon, name = spec.rpartition(f"{_SUFFIX}:")
    if not colon:
        return Path(spec), None
    if not name.strip():
        raise error(f"{spec!r} has a colon, but no name after it", hint=f"Write {head}{_SUFFIX}, or a name after the colon.")
    return Path(head + _SUFFIX), name.strip()


@dataclass(frozen=True, slots=True)
class UserFile:
    """Python file of the user. kind: the noun for its content, such as `topology`. error: the class of its errors."""

    path: Path
    kind: str
    error: type[EngineError]

    def load(self) -> ModuleType:
        """Import the file as a new module and return the module."""
        code = self.compile()
        path = self.path.resolve()
        folders = [each for each in dict.fromkeys((str(path.parent), str(package_root(path)[0]))) if each not in sys.path]
        behind = sum(each in FOLDERS for each in sys.path)  # the names of earlier files must still lead to these files
        sys.path[behind:behind] = folders
        try:
            module = self._run(code)
        except BaseException:
            for folder in folders:
                sys.path.remove(folder)
            raise
        FOLDERS.update(folders)
        return module

    def compile(self) -> CodeType:
        """Compile the file without running it."""
        trouble = why_unreadable(self.path, _SUFFIX)
        if trouble is not None:
            raise self.error(trouble[0], hint=trouble[1])
        try:
            code: CodeType = compile(self.path.read_bytes(), str(self.path.resolve()), "exec", dont_inherit=True)
            return code
        except OSError as error:
            raise self.error(f"{self.path} cannot be read: {error.strerror}", hint="Check its permissions.") from error
        except (SyntaxError, ValueError) as error:
            where = f", line {error.lineno}," if isinstance(error, SyntaxError) and error.lineno else ""
            text = "".join(traceback.format_exception_only(error)).rstrip()
            raise self.error(f"{self.path}{where} is not valid Python:\n{text}", hint="Correct the file.") from error

    def user_code_error(self, error: BaseException, when: str, hint: str) -> EngineError:
        """Return the error for an exception of user code, with the frames of user code only."""
        trace = traceback.TracebackException(type(error), error, error.__traceback__)
        own = self._own_frames(trace.stack)
        trace.stack[:] = own or trace.stack
        text = "".join(trace.format()).rstrip()
        if isinstance(error, EngineError) and error.hint:  # show one fix only, that of the original error
            text, hint = text.removesuffix(f"\nFix: {error.hint}"), error.hint
        text = text.removesuffix(f"{INSTALL_IT}{hint}")
        return self.error(f"{self.path} raised {type(error).__name__} {when}:\n{text}", hint=hint)

    def add_location(self, error: EngineError) -> None:
        """Add a note to an engine error with the line of the file that led to the error."""
        file = str(self.path.resolve())
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
        if lines:
            error.add_note(f"raised in {self.path}, line {lines[-1]}")

    def _run(self, code: CodeType) -> ModuleType:
        try:
            return self._execute(code)
        except (TopologyError, ConfigError) as error:
            self.add_location(error)
            raise
        except self.error:
            raise
        except ModuleNotFoundError as error:
            raise self.user_code_error(error, "while it was imported", _hint_of_missing(error)) from error
        except SystemExit as error:
            hint = "Put the script part of the file under `if __name__ == '__main__':`."
            raise self.user_code_error(error, "while it was imported", hint) from error
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise self.user_code_error(error, "while it was imported", _hint_of(error)) from error

    def _execute(self, code: CodeType) -> ModuleType:
        """Run the file as a new module, which its package then has as an attribute."""
        spec = spec_of(self.kind, self.path.resolve())
        if spec is None:
            raise self.error(f"{self.path} cannot be imported", hint="Rename the file so that its name ends in .py.")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        try:
            exec(code, vars(module))
        except BaseException:
            sys.modules.pop(spec.name, None)
            raise
        LOADED.add(spec.name)
        package, _, name = spec.name.rpartition(".")
        if package:
            setattr(sys.modules[package], name, module)
        return sys.modules.get(spec.name, module)

    def _own_frames(self, frames: list[traceback.FrameSummary]) -> list[traceback.FrameSummary]:
        """Return the frames of user code, from the first frame in the file."""
        file = str(self.path.resolve())
        start = next((index for index, frame in enumerate(frames) if frame.filename == file), len(frames))
        return [frame for frame in frames[start:] if not frame.filename.startswith(_PREFIXES_OF_OTHER_CODE)]


def _hint_of_missing(error: ModuleNotFoundError) -> str:
    """Return the hint for a missing module. A package of the engine that needs an extra has the command in its text."""
    _, _, command = str(error).partition(INSTALL_IT)
    missing = (error.name or "the module").partition(".")[0]
    return command or f"Install {missing!r} into this Python ({sys.executable}), or put {missing}.py beside the file."


def _hint_of(error: BaseException) -> str:
    """Return the hint for an error in a user's file, which is a similar name if there is one."""
    near = None
    if isinstance(error, ImportError) and "relative import" in str(error):
        return "Make a package: put an __init__.py into the folder of the file, and into each folder that the dots lead to."
    if isinstance(error, AttributeError) and error.name:
        near = nearest(error.name, dir(error.obj))
    elif isinstance(error, ImportError) and (wanted := getattr(error, "name_from", None)):  # Python 3.12 and later
        near = nearest(wanted, dir(sys.modules.get(error.name or "")))
    if near is not None:
        return f"Did you mean {near!r}?"
    return "Correct the file. The last line of the file in the traceback above shows the place."


_LISTED_FILES = 8
_SHOWN_CHARACTERS = 200


def why_unreadable(path: Path, suffix: str) -> tuple[str, str] | None:
    """Return the reason why a path is not a readable file with this suffix, and the fix. None if it is readable."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return _why_missing(path, suffix)
    except OSError as error:
        return f"{_shown(path)} cannot be read: {error.strerror}", "Check the path."
    if stat.S_ISDIR(mode):
        return f"{path} is a folder", f"Name a file in it. {_files_in(path, suffix)}"
    if path.suffix != suffix:
        return f"{path} is not a {suffix} file", f"Name a file that ends in {suffix}."
    if not stat.S_ISREG(mode):
        return f"{path} is not a regular file", "A pipe or a device may be endless. Copy its content into a file."
    return None


def _why_missing(path: Path, suffix: str) -> tuple[str, str]:
    if path.is_symlink():
        return f"{path} is a link to {os.readlink(path)}, which does not exist", "Correct the link."
    folder = path.parent
    if not folder.is_dir():
        return f"{path} does not exist, and neither does its folder {folder}", "Check the path."
    near = nearest(path.name, (entry.name for entry in folder.iterdir() if entry.suffix == suffix))
    return f"{path} does not exist", f"Did you mean {folder / near}?" if near else _files_in(folder, suffix)


def _shown(path: Path) -> str:
    text = str(path)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _files_in(folder: Path, suffix: str) -> str:
    names = sorted(entry.name for entry in folder.iterdir() if entry.suffix == suffix)
    if not names:
        return f"There is no {suffix} file in {folder.resolve()}."
    more = f" and {len(names) - _LISTED_FILES} more" if len(names) > _LISTED_FILES else ""
    return f"There is {', '.join(names[:_LISTED_FILES])}{more}."
