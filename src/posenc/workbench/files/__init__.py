"""Files that a user names: read safely, written whole or not at all, compared by digest."""
