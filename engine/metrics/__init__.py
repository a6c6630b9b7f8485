"""What is counted and measured, and its text for monitoring systems."""

from engine.metrics.family import Family, FamilyKind, Sample
from engine.metrics.openmetrics import CONTENT_TYPE, render
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
