"""Interface of the features that take part in runs. Checkpoints, transactions, flow control and third-party features implement it."""

from engine.control.feature import Feature, FeatureRun, RunHandle, RunStart, SnapshotEntry, json_number

__all__ = ["Feature", "FeatureRun", "RunHandle", "RunStart", "SnapshotEntry", "json_number"]
