"""Measurements: functions that turn models, positions or results into tables and estimates."""
