"""Measurements of schemes, models and results: distances, attention maps, statistics."""
