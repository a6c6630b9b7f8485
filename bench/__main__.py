"""Run the benchmarks by `python -m bench`."""

import sys

from bench.cli import main
from engine.cli.console.output import keep_streams

with keep_streams():
    sys.exit(main(sys.argv[1:]))
