"""The version of the distribution. The build also reads it from here."""

__version__ = "0.1.0"
