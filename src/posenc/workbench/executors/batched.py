"""Executor for a GPU: units that differ in numbers alone are trained as one batched model, scheme after scheme."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from posenc.workbench.runs import RunSpec
from posenc.workbench.store import Store
from posenc.workbench.worker import POLL, Emit, execute_batched, execute_unless_locked, find_batched, waiting_for

ROOM = 0.7
"""Part of the device's free memory that a population is planned to take."""


class Populations:
    """Models of one scheme (other seeds, standard deviations, rates) as one batched model, in this process.

    A work function with a companion (``perform.Batched``) says which of its units can be one and what each takes of
    the device's memory; units of other work, and a unit that is like no other, run alone. ``members`` is the largest
    population, by default what the device has room for; one that turns out too large for it is divided in two and goes
    on from its checkpoints.
    """

    def __init__(self, device: str = "cuda", members: int | None = None) -> None:
        if members is not None and members < 1:
            raise ValueError(f"A population has at least one member; got {members}. Leave it out for what fits.")
        self.device, self.members = device, members

    def __str__(self) -> str:
        size = f"up to {self.members} models" if self.members else "as many models as it has room for"
        return f"populations on {self.device}: {size} of one scheme as one batched model, scheme after scheme"

    def run(self, specs: Sequence[RunSpec], store_root: Path, emit: Emit) -> None:
        store, told = Store(store_root), set[str]()
        queue = list(specs)
        while queue:
            held: list[RunSpec] = []
            for group in self.groups(queue):
                held += self._attempt(group, store, emit)
            for spec in held:
                if spec.identity not in told:
                    emit(waiting_for(spec))
            told |= {spec.identity for spec in held}
            queue = held
            if queue:
                time.sleep(POLL)

    def groups(self, specs: Sequence[RunSpec]) -> Iterator[list[RunSpec]]:
        """Units that will be one model, in the order of their first; those of one group in their own order."""
        found: dict[tuple[str, str], list[RunSpec]] = {}
        for spec in specs:
            together = find_batched(spec.entry)
            found.setdefault((spec.entry, spec.identity if together is None else together.group(spec)), []).append(spec)
        for (work, _), group in found.items():
            together = find_batched(work)
            most = 1 if together is None else self.members or self._room(together.memory, group[0])
            parts = -(-len(group) // most)
            size = -(-len(group) // parts)  # parts of almost equal size
            yield from (group[start : start + size] for start in range(0, len(group), size))

    def _room(self, memory: Callable[[RunSpec], float], spec: RunSpec) -> int:
        import torch

        if not self.device.startswith("cuda"):
            raise ValueError(f"How much memory {self.device} has is not known. Say how many: Populations(members=8).")
        free, _ = torch.cuda.mem_get_info(self.device)
        return max(1, int(ROOM * free / memory(spec)))

    def _attempt(self, group: list[RunSpec], store: Store, emit: Emit) -> list[RunSpec]:
        """Does the group; returns what another process has."""
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
        return self._attempt(group[:half], store, emit) + self._attempt(group[half:], store, emit)
