"""Tables of results: metrics, their bounds, curves, and export."""
