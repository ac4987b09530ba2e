"""Schemes by name, text, file or module, and names that are wrong, old or cited."""
