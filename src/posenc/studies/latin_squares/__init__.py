"""Which encodings generalise on Latin squares?

    posenc run latin-squares --preset quick        about three minutes on two cores
    posenc run latin-squares --preset standard     the model of arXiv 2406.08272, 200 epochs, 3 seeds: hours
    posenc run latin-squares --preset paper        the same, 600 epochs, 15 seeds: days on two cores
    posenc run latin-squares --panels sigma noise  tables and figures of the paper by name, at any preset

Sixteen tokens stand on a 4 x 4 grid and nobody tells the network so, unless its encoding does. Trained puzzles are
unlike the held-out ones (Jaccard distance > 0.8), so memory does not help. Expected at the quick preset, means of 3
seeds: 2d-fixed above 1d-fixed by more than .20, learned-0.2 above learned-2 and above 1d-fixed by more than .10, nope
below .45.

Source: arXiv 2406.08272 and its public code, github ljhearne/LSTNN_public.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter

import torch

from posenc.progress import Estimate
from posenc.report.ledger import Claim
from posenc.report.page import Table
from posenc.report.rows import Row
from posenc.store import Store, Unit
from posenc.studies import Request, refuse_preset
from posenc.studies.latin_squares import page, planning, work
from posenc.studies.latin_squares.claims import CLAIMS
from posenc.studies.latin_squares.panels import PANELS
from posenc.studies.latin_squares.presets import PRESETS

WORKER_BYTES = 0.5 * 2**30  # torch, its libraries and the puzzles in one process
STEPS_TIMED = 3


class LatinSquares:
    """The Latin-square study; see the module."""

    name = planning.STUDY_NAME
    question = "Which encodings generalise on Latin squares?"
    presets: Mapping[str, str] = {name: preset.about for name, preset in PRESETS.items()}
    asks = frozenset(name for name, preset in PRESETS.items() if preset.asks)
    takes = ""
    scope = (
        "quick is a two-layer model of width 32 on 3,000 puzzles in a setting chosen to show the gap between "
        "encodings, not the paper's."
    )
    panels: Mapping[str, str] = {name: f"{plan.about} ({plan.shows})" for name, plan in PANELS.items()}

    claims: Sequence[Claim] = CLAIMS

    def beside(self, preset: str, rows: Sequence[Row]) -> Sequence[Table]:
        return page.beside(preset, rows)

    def plan(self, request: Request, store: Store) -> list[Unit]:
        refuse_preset(self, request.preset)
        return planning.train_units(request, store)

    def announce(self, request: Request, store: Store, units: Sequence[Unit]) -> Sequence[str]:
        return ()

    def measurements(self, request: Request, store: Store, units: Sequence[Unit]) -> list[Unit]:
        return planning.measure_units(request, store, units)

    def stored(self, request: Request, store: Store) -> list[Unit]:
        refuse_preset(self, request.preset)
        return planning.stored_units(request, store)

    def cost(self, unit: Unit) -> float:
        settings = unit.settings
        if unit.work != planning.TRAIN:
            return 1.0
        slow = 1.5 if settings["row"]["scheme"] in ("Shaw", "RoPE") else 1.0
        return slow * settings["training"]["epochs"] * (settings["train_size"] or 8100)

    def at_once(self, units: Sequence[Unit], processes: int) -> int:
        return processes  # its models are small

    def estimate(self, units: Sequence[Unit], store: Store, processes: int) -> Estimate:
        """From a few timed steps of the costliest unit on this machine."""
        if not units:
            return Estimate(seconds=0, memory_bytes=0, runs=0)
        unit, processes = max(units, key=self.cost), min(processes, len(units))
        on_gpu, threads = unit.settings["device"].startswith("cuda"), torch.get_num_threads()
        torch.set_num_threads(1)  # as the workers have it
        began = 0.0
        with torch.random.fork_rng():
            trained = work.Trained(unit, work.obtain(store.root, unit.settings["data"]))
            batch = torch.arange(trained.training.batch)
            for step in range(STEPS_TIMED + 1):
                if step <= 1:  # the first one warms up
                    began = _now(on_gpu)
                trained.loss(batch).backward()
            per_epoch = (_now(on_gpu) - began) / STEPS_TIMED / trained.training.batch * len(trained.train.x)
        torch.set_num_threads(threads)
        epochs = [u.settings["training"]["epochs"] for u in units]
        size = sum(p.numel() for p in trained.model.parameters()) * 16
        return Estimate(
            seconds=per_epoch * max(sum(epochs) / processes, max(epochs)),
            memory_bytes=processes * (WORKER_BYTES + size),
            runs=len(units),
        )

    def page(self, request: Request, store: Store, units: Sequence[Unit], failures: Mapping[str, str]) -> Path:
        return page.write(self.question, request, store, units, failures)

    def verdict(self, request: Request, store: Store, units: Sequence[Unit]) -> Sequence[str]:
        return page.judgement(request, store, units).sentences


def _now(on_gpu: bool) -> float:
    if on_gpu:
        torch.cuda.synchronize()
    return perf_counter()


STUDY = LatinSquares()
