"""The page that a study ends in: panels made from rows of results, and the one file they are written to."""
