"""A Python file of a user, imported as a script is: with its own folder importable, and without being `__main__`.

What goes wrong is an error that names the file, the line and the fix; the class of the error is that of whoever asks.
"""

import hashlib
import importlib.util
import os
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final

from engine.cli.paths import why_unreadable
from engine.errors import ConfigError, EngineError, TopologyError

_SUFFIX: Final = ".py"
_NOT_THE_USERS: Final = ("<string>", *(str(Path(__file__).resolve().parents[2] / name) + os.sep for name in ("engine", "spark_bridge")))
"""Where frames of a traceback begin that are no user's: what a dataclass makes, and what is installed with this."""


def split_spec(spec: str, error: type[EngineError]) -> tuple[Path, str | None]:
    """Return the path and the name of `path.py[:name]`; raise `error` for a colon without a name.

    >>> split_spec("flows/words.py:word-count", EngineError)[1]
    'word-count'
    """
    head, colon, name = spec.rpartition(f"{_SUFFIX}:")
    if not colon:
        return Path(spec), None
    if not name.strip():
        raise error(f"{spec!r} ends in a colon and no name", hint=f"Write {head}{_SUFFIX}, or a name after the colon.")
    return Path(head + _SUFFIX), name.strip()


@dataclass(frozen=True, slots=True)
class UserFile:
    """A file, the word for what it holds (`topology`), and the class of its errors."""

    path: Path
    kind: str
    error: type[EngineError]

    def load(self) -> ModuleType:
        """Return the module of the file, imported anew."""
        code = self.compile()
        module = self._new_module()
        folder = str(self.path.resolve().parent)
        added = folder not in sys.path
        if added:
            sys.path.insert(0, folder)
        sys.modules[module.__name__] = module
        try:
            self._run(code, module)
        except BaseException:
            del sys.modules[module.__name__]
            if added:
                sys.path.remove(folder)
            raise
        return module

    def compile(self) -> CodeType:
        """Return the code of the file; nothing of it is run."""
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

    def raised(self, error: BaseException, when: str, hint: str) -> EngineError:
        """Return the error for an exception of the user's code, with the user's own frames."""
        trace = traceback.TracebackException(type(error), error, error.__traceback__)
        own = self._own_frames(trace.stack)
        trace.stack[:] = own or trace.stack
        text = "".join(trace.format()).rstrip()
        if isinstance(error, EngineError) and error.hint:  # its fix becomes ours, instead of standing before another
            text, hint = text.removesuffix(f"\nFix: {error.hint}"), error.hint
        return self.error(f"{self.path} raised {type(error).__name__} {when}:\n{text}", hint=hint)

    def add_place(self, error: EngineError) -> None:
        """Note on an error of the engine which line of the file led to it."""
        file = str(self.path.resolve())
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
        if lines:
            error.add_note(f"raised in {self.path}, line {lines[-1]}")

    def _new_module(self) -> ModuleType:
        """Return an empty module, under a name that is the same in every process, so that what it pickles can be read again.

        Only a second import in the same process gets another name.
        """
        resolved = self.path.resolve()
        base = name = f"_{self.kind}_{self.path.stem}_{hashlib.blake2b(str(resolved).encode(), digest_size=4).hexdigest()}"
        number = 1
        while name in sys.modules:
            number += 1
            name = f"{base}_{number}"
        spec = importlib.util.spec_from_file_location(name, resolved)
        if spec is None:
            raise self.error(f"{self.path} cannot be imported", hint="Give it a name that ends in .py.")
        return importlib.util.module_from_spec(spec)

    def _run(self, code: CodeType, module: ModuleType) -> None:
        try:
            exec(code, vars(module))
        except (TopologyError, ConfigError) as error:
            self.add_place(error)
            raise
        except ModuleNotFoundError as error:
            missing = (error.name or "the module").partition(".")[0]
            hint = f"Install {missing!r} into this Python ({sys.executable}), or put {missing}.py beside the file."
            raise self.raised(error, "while it was imported", hint) from error
        except SystemExit as error:
            hint = "Put what the file does as a script under `if __name__ == '__main__':`."
            raise self.raised(error, "while it was imported", hint) from error
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            hint = "Correct the file; the last line in it above is where to look."
            raise self.raised(error, "while it was imported", hint) from error

    def _own_frames(self, frames: list[traceback.FrameSummary]) -> list[traceback.FrameSummary]:
        """Return the frames from the first one in the file on, without those of the engine."""
        file = str(self.path.resolve())
        start = next((index for index, frame in enumerate(frames) if frame.filename == file), len(frames))
        return [frame for frame in frames[start:] if not frame.filename.startswith(_NOT_THE_USERS)]
