"""Words of files, counted exactly once into a database, even after a crash: files -> words -> counts in SQLite.

    python examples/transactional_file_word_count.py [WHERE] [--keep FOLDER]
    python -m engine run examples/transactional_file_word_count.py

WHERE is a folder, a file, or a pattern such as "logs/app-*.log". The default is the source of the standard library. --keep makes the counts
and the positions in the files durable. Kill the process with `kill -9` and start it again: it continues. Files may grow, be rotated, and
be added, and the next start counts the new lines.
"""

import argparse
import atexit
import glob
import shutil
import sqlite3
import sys
import sysconfig
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from engine import Config, Topology, TransactionalTopologyBuilder, Tuple, bolt
from engine.cli import run_in_terminal
from engine.transactional import FileTransactionalSpout
from engine.transactional.values import ReduceInto, SqliteValues


@bolt("word")
def split(tup: Tuple) -> Iterator[tuple[str]]:
    for word in tup["line"].split():
        yield (word,)


def build(where: str, folder: Path) -> Topology:
    """Return the topology. The folder gets the counts, and a second file with the state of the transactions."""
    lines = FileTransactionalSpout(where, stop_at_end=True, errors="replace")
    config = Config(state_provider=f"sqlite:///{folder / 'transactions.db'}", max_spout_pending=4)
    builder = TransactionalTopologyBuilder("file-word-count", "lines", lines, 2, config)
    builder.set_bolt("split", split, 2).shuffle_grouping("lines")
    counts = ReduceInto(SqliteValues(folder / "counts.db", "words"), key="word")
    builder.set_committer("count", counts, 2).fields_grouping("split", "word")
    return builder.build()


def counted(folder: Path) -> Counter[str]:
    """Return the counts of the database, as any program may read them."""
    with closing(sqlite3.connect(folder / "counts.db")) as database:
        return Counter(dict(database.execute("SELECT key, value FROM words")))


def plain_count(where: str) -> Counter[str]:
    """Count the same words in plain Python."""
    words: Counter[str] = Counter()
    for path in glob.glob(f"{where}/*" if Path(where).is_dir() else where, recursive=True):
        if Path(path).is_file():
            words.update(Path(path).read_text(encoding="utf-8", errors="replace").split())
    return words


def show(words: Counter[str]) -> None:
    for word, count in words.most_common(10):
        print(f"{count:>9,}  {word}")
    print(f"{words.total():,} words, {len(words):,} different ones")


def topology() -> Topology:
    """Return the topology for `python -m engine run`. The process shows the words at its end."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    atexit.register(lambda: show(counted(folder)) if (folder / "counts.db").exists() else None)
    return build(standard_library(), folder)


def standard_library() -> str:
    return f"{glob.escape(sysconfig.get_path('stdlib'))}/*.py"


def main() -> int:
    parser = argparse.ArgumentParser(description="Count the words of files into a database, exactly once.")
    parser.add_argument(
        "where", nargs="?", default=standard_library(), help="a folder, a file, or a pattern; default: the source of the standard library"
    )
    parser.add_argument("--keep", metavar="FOLDER", type=Path, help="folder of the counts; a second start continues with them")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder: Path = arguments.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        outcome = run_in_terminal(build(arguments.where, folder))
        if outcome.exit_status or outcome.snapshot is None or outcome.snapshot.state != "complete":
            print("The run was not finished, so its result is not compared.")
            return 1
        words = counted(folder) if (folder / "counts.db").exists() else Counter()
    show(words)
    if words != plain_count(arguments.where):
        print("The result DIFFERS from a plain count of the same text.")
        return 1
    print("The result equals a plain count of the same text.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
