"""From a request to units of work, and from a store back to the units that a page shows."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import msgspec

from posenc.models.encoder import EncoderConfig
from posenc.store import Store, Unit
from posenc.studies import Request
from posenc.studies.latin_squares import measuring, panels, rows, work
from posenc.studies.latin_squares.presets import PRESETS, Setting
from posenc.tasks import latin_squares as task

STUDY_NAME = "latin-squares"
TRAIN = f"{work.__name__}:train_unit"


def train_units(request: Request, store: Store) -> list[Unit]:
    """The models that a request trains, data made or read. Raises ValueError for what cannot be run."""
    preset = PRESETS[request.preset]
    seeds = tuple(request.seeds or preset.seeds)
    units: dict[str, Unit] = {}
    for name, labels in wanted(request).items():
        setting = preset.setting(name)
        found = {label: rows.row(label) for label in labels}
        for row in found.values():
            work.try_row(row, model_of(setting, row))
        data = _data(setting, request, store)
        for label, row in found.items():
            settings = {
                "data": data,
                "train_size": setting.train_size,
                "row": msgspec.to_builtins(row),
                "model": msgspec.to_builtins(model_of(setting, row)),
                "training": msgspec.structs.replace(setting.training, **row.training).plain,
                "device": request.device,
            }
            if request.device.startswith("cuda"):
                settings["precision"] = "tf32"  # of matrix products; parameters, sums and measurements stay in float32
            labels_of = {
                "study": STUDY_NAME, "preset": request.preset, "setting": name, "scheme": stored_label(label, name)
            }  # fmt: skip
            made = [Unit(**labels_of, seed=seed, work=TRAIN, settings=settings) for seed in seeds]
            units |= {unit.key: unit for unit in made if unit.key not in units}
    return list(units.values())


def measure_units(request: Request, store: Store, units: Sequence[Unit]) -> list[Unit]:
    """What is measured of these trained units for the panels of a request; only of those that are finished."""
    preset = PRESETS[request.preset]
    measured = tuple(name for name in panels.chosen(request.panels, preset) if panels.PANELS[name].measured)
    labels = {*panels.needed(measured, preset).get("main", ()), *(request.schemes or ())} if measured else set()
    return [unit for unit in measuring.measurements(units, store) if unit.scheme in labels]


def stored_units(request: Request, store: Store) -> list[Unit]:
    """The trained units of the store that a page of this request shows, then the planned ones that it lacks.

    Raises ValueError where the store has none at all, or none of a setting that a panel asked for by name needs.
    """
    preset = PRESETS[request.preset]
    trained = [
        unit for unit in store.units() if (unit.study, unit.preset, unit.work) == (STUDY_NAME, request.preset, TRAIN)
    ]
    command = f"posenc run {STUDY_NAME} --preset {request.preset}"
    if not trained:
        raise ValueError(
            f"{store.root} holds no results of {STUDY_NAME} --preset {request.preset}. "
            f"Make them: {command} --out {store.root}"
        )
    have = {(unit.setting, unit.scheme) for unit in trained}
    for name in request.panels or ():
        for setting, labels in panels.needed(panels.chosen([name], preset), preset).items():
            if not any((setting, stored_label(label, setting)) in have for label in labels):
                raise ValueError(
                    f"the panel {name} needs runs that {store.root} lacks: {stored_label(labels[0], setting)} and its "
                    f"like. Make them: {command} --panels {name} --out {store.root}"
                )
    device = trained[0].settings.get("device", "cpu")
    planned = train_units(dataclasses.replace(request, device=device), store)
    shown = {(unit.setting, unit.scheme) for unit in planned}
    trained = [unit for unit in trained if not request.panels or (unit.setting, unit.scheme) in shown]
    done = {(unit.setting, unit.scheme, unit.seed) for unit in trained}
    return [*trained, *(unit for unit in planned if (unit.setting, unit.scheme, unit.seed) not in done)]


def wanted(request: Request) -> panels.Needs:
    """The rows of each setting: those of the panels; of these, or beyond them, what was asked for by name."""
    preset = PRESETS[request.preset]
    names = panels.chosen(request.panels, preset)
    needed = panels.needed(names, preset)
    if not request.schemes:
        return needed
    asked = tuple(request.schemes)
    kept = {setting: tuple(label for label in asked if label in labels) for setting, labels in needed.items()}
    if not request.panels:
        kept["main"] = asked
    lost = [label for label in asked if not any(label in labels for labels in kept.values())]
    if lost:
        raise ValueError(
            f"the row {lost[0]} is in none of the panels {', '.join(names)}; their rows are "
            f"{', '.join(dict.fromkeys(label for labels in needed.values() for label in labels))}. "
            f"Leave --panels out to train any row."
        )
    return {setting: labels for setting, labels in kept.items() if labels}


def stored_label(label: str, setting: str) -> str:
    """A row's name in the store: with its setting, so that nobody averages over two settings unawares."""
    return label if setting == "main" else f"{label}, {setting}"


def model_of(setting: Setting, row: rows.Row) -> EncoderConfig:
    return msgspec.structs.replace(setting.model, **row.model)


def _data(setting: Setting, request: Request, store: Store) -> dict[str, Any]:
    """The arguments that name a setting's puzzles, with the puzzles in the store."""
    if "authors" not in setting.data:
        work.obtain(store.root, setting.data)
        return setting.data
    folder = None if request.data is None else request.data / "lst"
    if folder is None or not folder.is_dir():
        print("The authors' puzzles are not at hand (--data DIR with a folder lst); generating others by their rules.")
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
