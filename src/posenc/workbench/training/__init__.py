"""Training loop, batched and distributed training, and checkpoints, for any model and any scheme."""
