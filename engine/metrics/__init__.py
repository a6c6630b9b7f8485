"""Metrics of user code, and the OpenMetrics text of all metrics of a run."""

from engine.metrics.openmetrics import CONTENT_TYPE, Family, FamilyKind, Sample, render
from engine.metrics.user_metrics import TaskLabels, UserMetric, UserMetrics
from engine.metrics.value_histogram import Distribution, ValueHistogram

__all__ = [
    "CONTENT_TYPE",
    "Distribution",
    "Family",
    "FamilyKind",
    "Sample",
    "TaskLabels",
    "UserMetric",
    "UserMetrics",
    "ValueHistogram",
    "render",
]
