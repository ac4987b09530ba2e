"""Executor for a GPU: units that differ in numbers alone are trained as one batched model, scheme after scheme."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from posenc.perform import POLL, Emit, attempt, attempt_together, find_together, waiting_for
from posenc.store import Store, Unit

ROOM = 0.7
"""Part of the device's free memory that a population is planned to take."""


class Populations:
    """Models of one scheme (other seeds, standard deviations, rates) as one batched model, in this process.

    A work function with a companion (``perform.Together``) says which of its units can be one and what each takes of
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

    def run(self, units: Sequence[Unit], store_root: Path, emit: Emit) -> None:
        store, told = Store(store_root), set[str]()
        queue = list(units)
        while queue:
            held: list[Unit] = []
            for group in self.groups(queue):
                held += self._attempt(group, store, emit)
            for unit in held:
                if unit.key not in told:
                    emit(waiting_for(unit))
            told |= {unit.key for unit in held}
            queue = held
            if queue:
                time.sleep(POLL)

    def groups(self, units: Sequence[Unit]) -> Iterator[list[Unit]]:
        """Units that will be one model, in the order of their first; those of one group in their own order."""
        found: dict[tuple[str, str], list[Unit]] = {}
        for unit in units:
            together = find_together(unit.work)
            found.setdefault((unit.work, unit.key if together is None else together.group(unit)), []).append(unit)
        for (work, _), group in found.items():
            together = find_together(work)
            most = 1 if together is None else self.members or self._room(together.memory, group[0])
            parts = -(-len(group) // most)
            size = -(-len(group) // parts)  # parts of almost equal size
            yield from (group[start : start + size] for start in range(0, len(group), size))

    def _room(self, memory: Callable[[Unit], float], unit: Unit) -> int:
        import torch

        if not self.device.startswith("cuda"):
            raise ValueError(f"How much memory {self.device} has is not known. Say how many: Populations(members=8).")
        free, _ = torch.cuda.mem_get_info(self.device)
        return max(1, int(ROOM * free / memory(unit)))

    def _attempt(self, group: list[Unit], store: Store, emit: Emit) -> list[Unit]:
        """Does the group; returns what another process has."""
        import torch

        if len(group) == 1:
            return [] if attempt(group[0], store, emit) else group
        try:
            return attempt_together(group, store, emit)
        except torch.OutOfMemoryError:
            pass  # outside the handler, whose traceback keeps the tensors alive
        if self.device.startswith("cuda"):
            torch.cuda.empty_cache()
        half = len(group) // 2
        return self._attempt(group[:half], store, emit) + self._attempt(group[half:], store, emit)
