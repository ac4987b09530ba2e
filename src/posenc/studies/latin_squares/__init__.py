"""Which encodings generalise on Latin squares?

    posenc run latin-squares --preset quick        about three minutes on two cores
    posenc run latin-squares --preset standard     the model of arXiv 2406.08272, 200 epochs, 3 seeds: hours
    posenc run latin-squares --preset paper        the same, 600 epochs, 15 seeds: days on two cores

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
from typing import Any

import msgspec
import torch

from posenc.progress import Estimate
from posenc.store import Store, Unit
from posenc.studies import Request, refuse_preset
from posenc.studies.latin_squares import page, rows, work
from posenc.tasks import latin_squares as task

WORKER_BYTES = 0.5 * 2**30  # torch, its libraries and the puzzles in one process
STEPS_TIMED = 3


class LatinSquares:
    """The Latin-square study; see the module."""

    name = "latin-squares"
    question = "Which encodings generalise on Latin squares?"
    presets: Mapping[str, str] = {name: preset.about for name, preset in rows.PRESETS.items()}
    asks = frozenset(name for name, preset in rows.PRESETS.items() if preset.asks)

    def plan(self, request: Request, store: Store) -> list[Unit]:
        refuse_preset(self, request.preset)
        preset = rows.PRESETS[request.preset]
        labels, seeds = tuple(request.schemes or preset.rows), tuple(request.seeds or preset.seeds)
        found = {label: rows.row(label) for label in (*labels, *preset.other_rows)}
        for label in found:
            work.try_row(found[label], _model(preset.main, found[label]))
        parts = [("main", preset.main, labels)]
        parts += [
            (name, setting, tuple(label for label in preset.other_rows if label in labels))
            for name, setting in preset.other.items()
        ]
        units = []
        for name, setting, chosen in parts:
            if not chosen:
                continue
            data = self._data(setting, request, store)
            for label in chosen:
                row = found[label]
                settings = {
                    "data": data,
                    "train_size": setting.train_size,
                    "row": msgspec.to_builtins(row),
                    "model": msgspec.to_builtins(_model(setting, row)),
                    "training": msgspec.to_builtins(msgspec.structs.replace(setting.training, **row.training)),
                    "device": request.device,
                }
                scheme = label if name == "main" else f"{label}, {name}"
                labels_of = {"study": self.name, "preset": request.preset, "setting": name, "scheme": scheme}
                units += [Unit(**labels_of, seed=seed, work=f"{work.__name__}:train_unit", settings=settings)
                          for seed in seeds]  # fmt: skip
        return units

    def _data(self, setting: rows.Setting, request: Request, store: Store) -> dict[str, Any]:
        """The arguments that name a setting's puzzles, with the puzzles in the store."""
        if "authors" not in setting.data:
            work.obtain(store.root, setting.data)
            return setting.data
        folder = None if request.data is None else request.data / "lst"
        if folder is None or not folder.is_dir():
            print(
                "The authors' puzzles are not at hand (--data DIR with a folder lst); generating others by their rules."
            )
            data = {"train": 8100, "iid": 900, "ood": 108, "ood_squares": None, "ood_turns": 3, "seed": 0,
                    "clues": [3, 11], "balance_clues": False}  # fmt: skip
            work.obtain(store.root, data)
            return data
        dataset = task.load_authors(folder)
        data = {"authors": dataset.manifest["digests"]}
        path = work.dataset_path(store.root, data)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            task.save(dataset, path)
        return data

    def cost(self, unit: Unit) -> float:
        settings = unit.settings
        slow = 1.5 if settings["row"]["scheme"] in ("Shaw", "RoPE") else 1.0
        return slow * settings["training"]["epochs"] * (settings["train_size"] or 8100)

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

    def page(self, store: Store, units: Sequence[Unit], failures: Mapping[str, str]) -> Path:
        return page.write(self.name, self.question, store, units, failures)

    def verdict(self, store: Store, units: Sequence[Unit]) -> Sequence[str]:
        return page.judgement(self.name, store, units).sentences


def _now(on_gpu: bool) -> float:
    if on_gpu:
        torch.cuda.synchronize()
    return perf_counter()


def _model(setting: rows.Setting, row: rows.Row) -> rows.EncoderConfig:
    return msgspec.structs.replace(setting.model, **row.model)


STUDY = LatinSquares()
