"""Bolts that tell what their process has of the program."""

import multiprocessing
import os
import resource
import sys
import time
from typing import Any

from engine import BasicBolt, Tuple


class Surroundings(BasicBolt):
    """Emits what the process has of the program."""

    output_fields = "facts"

    def execute(self, tup: Tuple) -> Any:
        """Emit it for any input."""
        umask = os.umask(0)
        os.umask(umask)
        parent = multiprocessing.parent_process()
        return (
            {
                "variable": os.environ.get("OF_THE_PROGRAM"),
                "zone": time.tzname[0],
                "folder": os.getcwd(),
                "umask": umask,
                "recursion_limit": sys.getrecursionlimit(),
                "path": sys.path,
                "arguments": sys.argv,
                "core_size": resource.getrlimit(resource.RLIMIT_CORE)[0],
                "parent": parent.pid if parent is not None else None,
                "is_parent_alive": parent is not None and parent.is_alive(),
                "name": multiprocessing.current_process().name,
            },
        )
