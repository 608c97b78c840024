"""A translation app that shows how neural machine translation evolved."""

__version__ = "0.1.0"
