"""Files as sources of batches, and as their output (TX-7, TX-8, TX-10).

In: `file_identity`: which file it is, by inode and head; `folder`: what is there; `line_reader`, `line_format`: from bytes to tuples;
`coordinating`: which files the next batch reads; `emitting`: reads them; `spouts`: what a user writes.
Out: `output_names`: which files count; `committer`: writes them; `committed`: reads them.
"""

from engine.transactional.files.committer import FileCommitter, as_json, as_text
from engine.transactional.files.output_files import committed_files, committed_lines
from engine.transactional.files.spouts import FileOpaqueSpout, FileTransactionalSpout

__all__ = ["FileCommitter", "FileOpaqueSpout", "FileTransactionalSpout", "as_json", "as_text", "committed_files", "committed_lines"]
