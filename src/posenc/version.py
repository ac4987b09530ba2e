"""The version of posenc: one line, read by the build and by every stored result."""

__version__ = "0.1.0.dev0"
