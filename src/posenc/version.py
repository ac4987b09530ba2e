"""The version of posenc, read by the build and stored with every result."""

__version__ = "0.1.0.dev0"
