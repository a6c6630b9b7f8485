"""The command line of the bridge: one command per file. `run_pipeline_in_terminal` gives any program what `run` has."""

from spark_bridge.cli.session import run_pipeline_in_terminal
from spark_bridge.cli.view import PipelineOutcome

__all__ = ["PipelineOutcome", "run_pipeline_in_terminal"]
