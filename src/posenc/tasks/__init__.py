"""One task per module: what it is, its data, the position views it offers, its score and a worked example."""
