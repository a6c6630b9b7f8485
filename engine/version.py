"""The version of the distribution: the one place, which the build reads as well."""

__version__ = "0.1.0"
