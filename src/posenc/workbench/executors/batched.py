"""Executor for a GPU: runs whose models have equal shapes are trained as one batched model."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.worker import (
    POLL_SECONDS,
    Emit,
    execute_batched,
    execute_unless_locked,
    find_batched,
    waiting_for,
)

MEMORY_FRACTION = 0.7
"""Fraction of the device's free memory that one batched model is planned to use."""


class BatchedExecutor:
    """Executor that trains several models of one scheme as one batched model, in this process.

    The models differ in values alone, such as seeds, standard deviations and learning rates. The companion of a
    procedure (``Batched``) decides which runs can be batched, and how much memory each needs. All other runs are
    executed one by one. A batch that does not fit into memory is divided in two and continues from its checkpoints.

    Args:
        device: PyTorch device of the runs, such as "cuda" or "cuda:1".
        members: Largest number of models in a batch; None for as many as 70% of the free memory hold.

    Raises:
        ValueError: ``members`` is less than 1.

    Example:
        >>> from posenc.workbench import BatchedExecutor
        >>> executor = BatchedExecutor("cuda", members=16)
        >>> str(executor).split(": ")[1]
        'up to 16 models of one scheme as one batched model, scheme after scheme'
    """

    def __init__(self, device: str = "cuda", members: int | None = None) -> None:
        if members is not None and members < 1:
            raise ValueError(f"A batch has at least one model; got members={members}. Leave it out for what fits.")
        self.device, self.members = device, members

    def __str__(self) -> str:
        size = f"up to {self.members} models" if self.members else "as many models as fit into its memory"
        return f"batched training on {self.device}: {size} of one scheme as one batched model, scheme after scheme"

    def run(self, specs: Sequence[RunSpec], store_root: Path, emit: Emit) -> None:
        """Execute the runs, batch after batch.

        Args:
            specs: The runs, each once.
            store_root: Folder of the store that receives the results.
            emit: Called with every progress event.
        """
        store, announced = Store(store_root), set[str]()
        queue = list(specs)
        while queue:
            locked: list[RunSpec] = []
            for group in self.groups(queue):
                locked += self._execute(group, store, emit)
            for spec in locked:
                if spec.identity not in announced:
                    emit(waiting_for(spec))
            announced |= {spec.identity for spec in locked}
            queue = locked
            if queue:
                time.sleep(POLL_SECONDS)

    def groups(self, specs: Sequence[RunSpec]) -> Iterator[list[RunSpec]]:
        """Divide runs into batches.

        Args:
            specs: The runs.

        Yields:
            The runs of each batch, in the order of the first run of each group. Batches of one group have almost equal
            sizes.
        """
        groups: dict[tuple[str, str], list[RunSpec]] = {}
        for spec in specs:
            batched = find_batched(spec.entry)
            groups.setdefault((spec.entry, spec.identity if batched is None else batched.group(spec)), []).append(spec)
        for (entry, _), group in groups.items():
            batched = find_batched(entry)
            most = 1 if batched is None else self.members or self._largest_batch(batched.memory, group[0])
            parts = -(-len(group) // most)
            size = -(-len(group) // parts)
            yield from (group[start : start + size] for start in range(0, len(group), size))

    def _largest_batch(self, memory: Callable[[RunSpec], float], spec: RunSpec) -> int:
        import torch

        if not self.device.startswith("cuda"):
            raise ValueError(
                f"The free memory of {self.device} is not known. Give the number of models: BatchedExecutor(members=8)."
            )
        free, _ = torch.cuda.mem_get_info(self.device)
        return max(1, int(MEMORY_FRACTION * free / memory(spec)))

    def _execute(self, group: list[RunSpec], store: Store, emit: Emit) -> list[RunSpec]:
        """Execute a batch; return the runs that another process has locked."""
        import torch

        if len(group) == 1:
            return [] if execute_unless_locked(group[0], store, emit) else group
        try:
            return execute_batched(group, store, emit)
        except torch.OutOfMemoryError:
            pass  # outside the handler, whose traceback keeps the tensors alive
        if self.device.startswith("cuda"):
            torch.cuda.empty_cache()
        half = len(group) // 2
        return self._execute(group[:half], store, emit) + self._execute(group[half:], store, emit)
