"""Interface of features that take part in runs: checkpoints, transactions, flow control, and third-party features."""

from engine.control.feature import Feature, FeatureRun, RunHandle, RunStart, SnapshotEntry, json_number

__all__ = ["Feature", "FeatureRun", "RunHandle", "RunStart", "SnapshotEntry", "json_number"]
