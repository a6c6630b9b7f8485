"""Files of blocks: the rows of emitters in the engine's process, on their way to executors."""

import pickle
from collections.abc import Iterable, Iterator

from spark_bridge.topology.blocks import Block


def append_blocks(path: str, blocks: Iterable[Block]) -> None:
    """Append blocks to a file, which is created if it is missing."""
    with open(path, "ab") as file:
        for block in blocks:
            pickle.dump(tuple(block), file, protocol=pickle.HIGHEST_PROTOCOL)


def blocks_in(path: str) -> Iterator[Block]:
    """Yield the blocks of a file, in order."""
    with open(path, "rb") as file:
        while file.peek(1):
            yield Block(*pickle.load(file))


def pieces_of(blocks: Iterable[Block], most_bytes: int) -> Iterator[list[Block]]:
    """Yield the blocks as lists. The payload of a list exceeds `most_bytes` by at most one block."""
    piece: list[Block] = []
    size = 0
    for block in blocks:
        piece.append(block)
        size += len(block.payload)
        if size >= most_bytes:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece
