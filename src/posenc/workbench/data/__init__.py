"""Data of a user: one reader for each form of files, and what the readers return."""
