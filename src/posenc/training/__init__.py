"""Training: one loop, its checkpoints, and what an optimiser needs; nothing here knows which scheme it trains."""
