"""Interface through which features take part in runs (checkpoints, transactions, flow control, features of third parties)."""

from engine.control.feature import Feature, FeatureRun, RunHandle, RunStart, SnapshotEntry, json_number

__all__ = ["Feature", "FeatureRun", "RunHandle", "RunStart", "SnapshotEntry", "json_number"]
