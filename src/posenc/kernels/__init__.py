"""Computational kernels that schemes share, or that are too long for a scheme's file; mostly pure functions."""
