"""Models: small, readable, no copies of each other; any scheme goes wherever its sites exist."""
