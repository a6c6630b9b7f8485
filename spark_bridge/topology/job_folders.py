"""Folders of the jobs of a run, and the file with their program. The functions block."""

import os
import shutil
from dataclasses import replace
from typing import Final

from engine.transactional.attempt import TransactionAttempt
from spark_bridge.process.spool_folder import make_spool_folder, remove_spool_folder
from spark_bridge.topology.pickled_program import pickle_program
from spark_bridge.topology.program import Program

PROGRAM_FILE: Final = "program"
"""Name of the file with the pickled program in the folder of the run."""


class JobFolders:
    """The folder of a run, with a folder for each attempt."""

    def __init__(self, program: Program, spool: str | None) -> None:
        """Make the folder of the run. spool: folder that this machine and all executors reach, or None."""
        # A spout that stays in the engine's process may have parts that cannot be pickled.
        self._pickled = pickle_program(program if program.executors_emit else replace(program, spout=None))
        self._spool = spool
        self._of_txid: dict[int, list[str]] = {}
        self.root = self._make_root()

    @property
    def program_path(self) -> str:
        """File with the pickled program."""
        return os.path.join(self.root, PROGRAM_FILE)

    def _make_root(self) -> str:
        root = make_spool_folder(self._spool)
        self._write_program(root)
        return root

    def _write_program(self, root: str) -> None:
        with open(os.path.join(root, PROGRAM_FILE), "wb") as file:
            file.write(self._pickled)

    def make_folder(self, attempt: TransactionAttempt) -> str:
        """Make the folder of an attempt. Remove those of earlier attempts, but for the newest, which may still be read."""
        if not os.path.isdir(self.root):  # somebody has removed it: the batches in it fail, and are tried again in another one
            self.root = self._make_root()
        elif not os.path.exists(self.program_path):
            self._write_program(self.root)
        folder = os.path.join(self.root, f"{attempt.txid}-{attempt.attempt_id}")
        os.mkdir(folder)
        os.chmod(folder, 0o777)  # executors may run as another user
        earlier = self._of_txid.get(attempt.txid, [])
        for old in earlier[:-1]:
            shutil.rmtree(old, ignore_errors=True)
        self._of_txid[attempt.txid] = [*earlier[-1:], folder]
        return folder

    def remove_committed(self, committed: int) -> None:
        """Remove the folders of committed batches."""
        for txid in [txid for txid in self._of_txid if txid <= committed]:
            for folder in self._of_txid.pop(txid):
                shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """Remove all folders."""
        remove_spool_folder(self.root)
