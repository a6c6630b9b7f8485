"""A command on a hand-over folder: what is wrong with it becomes an error of the command line."""

from collections.abc import Callable

from spark_bridge.handover import Handover, HandoverError
from spark_bridge.pipeline.errors import refusal


def on_folder(folder: str, command: Callable[[Handover], int]) -> int:
    """Call a command with the hand-over at a folder; raise PipelineRefused where it is none, or is damaged."""
    try:
        return command(Handover.open(folder))
    except HandoverError as error:
        raise refusal(error) from error
