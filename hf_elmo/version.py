"""The version of the distribution, alone in its file so that the build reads it without importing torch."""

__version__ = "0.1.0"
