"""HTML reports: plots, tables and verdicts drawn from stored result rows, written as one self-contained page."""
