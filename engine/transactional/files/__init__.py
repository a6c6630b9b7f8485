"""Reads batches from files, and writes the output of batches to files (TX-7, TX-8, TX-10).

Sources: `spouts` has the classes for users. `file_coordinator` chooses the files of a batch, `file_emitters` read them. `file_identity`
recognizes them by inode and head, `lines` turns bytes into tuples. `engine.files` lists and opens files.
Output: `committer` writes files, `output_files` decides which ones count, and reads them.
"""

from engine.transactional.files.committer import FileCommitter, as_json, as_text
from engine.transactional.files.output_files import committed_files, committed_lines
from engine.transactional.files.spouts import FileOpaqueSpout, FileTransactionalSpout

__all__ = ["FileCommitter", "FileOpaqueSpout", "FileTransactionalSpout", "as_json", "as_text", "committed_files", "committed_lines"]
