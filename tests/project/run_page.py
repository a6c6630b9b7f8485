"""Runs the Python blocks of one page, in order, in one namespace: `python run_page.py PAGE`. Those of README each in their own.

Line numbers in tracebacks are those of the page. A block may await at its top level, as in a notebook. A block that is a file may not. It
runs in its own namespace, because it must be complete, and the later blocks get its names.
"""

import ast
import asyncio
import inspect
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, "")  # the files of the page

from tests.project.pages import is_file, read


def main(page: Path) -> None:
    """Run the page's blocks; what one raises ends the process."""
    fresh: dict[str, object] = {"__name__": "__main__", "__file__": str(page)}
    namespace = dict(fresh)
    for block in read(page)[1]:
        if block.language != "python":
            continue
        source = "\n" * (block.line - 1) + block.text
        code = compile(source, str(page), "exec", flags=0 if is_file(block) else ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if "no-run" in block.words:
            continue
        if page.name == "README.md":  # whoever pastes a block pastes that one only
            namespace = dict(fresh)
        if is_file(block):
            own = dict(fresh)
            exec(code, own)
            namespace.update(own)
        elif code.co_flags & inspect.CO_COROUTINE:
            asyncio.run(eval(code, namespace))
        else:
            exec(code, namespace)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
