"""Files of lines as sources of batches (TX-7, TX-10).

`file_identity`: which file it is, by inode and head; `folder`: what is there; `line_reader`, `line_format`: from bytes to tuples;
`coordinating`: which files the next batch reads; `emitting`: reads them; `spouts`: what a user writes.
"""

from engine.transactional.files.spouts import FileOpaqueSpout, FileTransactionalSpout

__all__ = ["FileOpaqueSpout", "FileTransactionalSpout"]
