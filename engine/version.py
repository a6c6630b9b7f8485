"""The version of the distribution. The build also reads the version from here."""

__version__ = "0.1.0"
