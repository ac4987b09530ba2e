"""Executors: this process, worker processes, the processes of torchrun, and batched training on one device."""
