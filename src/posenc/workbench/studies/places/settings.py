"""The settings of one run of the places study, as plain JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from posenc.workbench.counted_nouns import count_of
from posenc.workbench.data.places import PlaceTable, place_record
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.dataset_record import DatasetRecord, Part, generated
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.places.conditions import SPLITS, PlacesCondition, condition
from posenc.workbench.studies.places.presets import PRESETS, PlacesPreset
from posenc.workbench.studies.places.stored_places import drawn_rows, read_parts, store_table
from posenc.workbench.studies.places.variants import (
    PROCESS,
    READ_BY,
    TRAINED,
    WITH_FEWER_ROWS,
    Sizes,
    fits,
    is_baseline,
    network_config,
    variant,
)
from posenc.workbench.studies.shared.changes import changed_preset, explicit_fields
from posenc.workbench.studies.shared.own_data import EVALUATIONS, own_plan, parts_settings
from posenc.workbench.tasks import places as task
from posenc.workbench.tasks.class_split import Parts
from posenc.workbench.training.config import Best

WARMUP_DIVISOR = 20
"""Steps per step of warm-up."""
NEEDS = "needs scikit-learn (pip install scikit-learn)"
FOLD_PHRASES = {
    "random": "five folds of rows at random",
    "blocks": "five folds of whole blocks of space",
    "time": "five spans of time",
}


class PlacesOfPlan(NamedTuple):
    """Places of the runs of a condition.

    Attributes:
        settings: Entry "data" of the settings.
        table: The places of seed 0.
        parts: Numbers of the rows of each part of seed 0.
        record: Record of the data.
        source: The user's file; None for generated places.
    """

    settings: dict[str, Any]
    table: PlaceTable
    parts: Parts
    record: DatasetRecord
    source: Path | None


def run_settings(request: Request, store: Store, label: str, variant_label: str) -> dict[str, Any] | None:
    """Settings of a run, with the user's places in the store.

    Returns:
        The settings; None for a variant that does not fit the coordinates, or a baseline that cannot be computed,
        unless the request names it.

    Raises:
        ValueError: The table cannot be read or is too small, or the variant cannot be built.
    """
    preset, chosen = changed_preset(PRESETS, request), condition(label)
    _refuse_sizes(preset)
    data = _places(request, store, chosen, preset)
    further, is_named = data.table.further, variant_label in (request.schemes or ())
    if chosen.split == "time" and not len(data.table.times):
        return None
    if not is_named and not fits(variant_label, data.table.geometry, further.shape[1]):
        return None
    if chosen.divisor > 1 and is_baseline(variant_label) and variant_label not in WITH_FEWER_ROWS:
        return None
    settings: dict[str, Any] = {"data": data.settings, "dataset": store.records.add(data.record, data.source)}
    if own_plan(preset, request) is not None:
        names = ("train", "validation", "test")
        settings |= parts_settings("seed", dict(zip(names, map(len, data.parts), strict=True)), "rows")
    columns = task.standardized_columns(data.table, data.parts.train).shape[1]
    sizes = Sizes(
        task.Region(**data.settings["region"]), columns, max(1, len(data.table.classes)), preset.parameters,
        preset.detail, preset.depth, preset.dropout, further.shape[1],
    )  # fmt: skip
    if is_baseline(variant_label):
        made = _baseline(variant_label, sizes, settings) if task.has_boosting() else None
        if made is None and is_named:
            lacking = "is for targets of numbers, and these are classes" if task.has_boosting() else NEEDS
            raise ValueError(f"the variant {variant_label!r} cannot be built: it {lacking}. Leave it out.")
        return made
    row = variant(variant_label, sizes)
    if row.view in task.MIXED:
        settings["data"] = {**data.settings, "spans": task.spans_of(further)}
    return {
        "row": msgspec.to_builtins(row),
        "model": msgspec.to_builtins(network_config(row, sizes, variant_label)),
        "training": _training(request, preset, data),
        "device": request.device,
        **settings,
    }


def _baseline(label: str, sizes: Sizes, settings: dict[str, Any]) -> dict[str, Any] | None:
    """Settings of a baseline; None for a Gaussian process of classes."""
    name, reads, encoding = label.partition(READ_BY)
    if name == PROCESS and sizes.outputs > 1:
        return None
    if not reads:
        return {"baseline": name, **settings}
    row = variant(encoding, sizes)
    if row.scheme in TRAINED:
        raise ValueError(
            f"the variant {label!r} cannot be built: {row.scheme} is trained with a network, and {name} reads fixed "
            f"rows. Use {name}{READ_BY}fourier."
        )
    if row.view in task.MIXED:
        raise ValueError(f"the variant {label!r} cannot be built: {name} reads further axes as columns. Use {name}.")
    return {"baseline": name, "row": msgspec.to_builtins(row), **settings}


def _training(request: Request, preset: PlacesPreset, data: PlacesOfPlan) -> dict[str, Any]:
    """The training for a number of steps, whose best step the validation part chooses."""
    training, steps, count = preset.training, preset.training.epochs, len(data.parts.train)
    training = replace(
        training,
        batch=min(training.batch, count),
        warmup_steps=max(steps // WARMUP_DIVISOR, 1),
        decay_steps=steps,
        evaluate_every=max(1, steps // EVALUATIONS),
        best=Best(metric="loss", mode="min") if data.table.classes else Best(metric="rmse", mode="min"),
    )
    return replace(training, **explicit_fields(PRESETS, request, "training")).plain


def remarks(store: Store, specs: Sequence[RunSpec]) -> tuple[str, ...]:
    """Sentences on the parts, the target and baselines that were left out."""
    said = dict.fromkeys(_of_data(spec.settings["data"]) for spec in specs)
    lines = [line for each in said for line in each]
    if not task.has_boosting():
        lines.append(f"The baselines are left out: they {NEEDS.replace('needs', 'need')}.")
    return tuple(dict.fromkeys(lines))


def _of_data(data: dict[str, Any]) -> tuple[str, ...]:
    """Sentences on the entry "data" of the settings of a run."""
    lines = []
    if data["logarithm"]:
        lines.append("Models learn the logarithm of the target, and R2 is of it: --set logarithm=no for the target.")
    if data["split"] == "blocks":
        unit = "degrees" if data["region"]["geometry"] == "sphere" else "units of the coordinates"
        lines.append(f"Blocks have a side of {data['side']:g} {unit}: --set block_side=NUMBER for another one.")
    if divided := data.get("divided"):
        reason = "rows of a group stay together, and have many blocks" if divided["what"] == "blocks" else ""
        count = f"{divided['divided']:,} of {count_of(divided['of'], divided['what'])}"
        lines.append(
            f"The {SPLITS[data['split']]} divides {count}, so test rows have training rows of their "
            f"{divided['what'].removesuffix('s')}{reason and ': ' + reason}."
        )
    if data.get("drawn"):
        lines.append(f"Of {data['of']:,} rows {data['drawn']:,} are drawn at random: --set rows={data['of']} for all.")
    return tuple(lines)


def _refuse_sizes(preset: PlacesPreset) -> None:
    if min(preset.made, preset.rows) < 50 or preset.block_side < 0 or not preset.detail > 0:
        raise ValueError(
            f"places have at least 50 rows, and sides of blocks and the detail are above 0; got made={preset.made}, "
            f"rows={preset.rows}, block_side={preset.block_side:g}, detail={preset.detail:g}. Use --set rows=20000."
        )


def _places(request: Request, store: Store, chosen: PlacesCondition, preset: PlacesPreset) -> PlacesOfPlan:
    """The places of a condition: those of the user, in the store, or generated ones."""
    if request.source is None:
        settings: dict[str, Any] = {"made": preset.made}
        table, record = task.made_places(preset.made, 0), None
    else:
        stated = msgspec.convert(request.reading, ReadingOptions)
        digest, whole = store_table(store.root, request.source, stated)
        table = whole.rows(drawn_rows(whole, preset.rows))
        settings = {"table": digest, "rows": preset.rows}
        settings |= {"drawn": len(table), "of": len(whole)} if len(table) < len(whole) else {}
        record = place_record(whole, request.source)
        record = replace(record, digest=digest)
    region, by_blocks = task.region_of(table.geometry, table.coords), chosen.split == "blocks"
    settings |= {
        "split": chosen.split,
        "side": (preset.block_side or task.usual_side(table.coords, region)) if by_blocks else 0.0,
        "logarithm": _logarithm(preset, table),
        "region": {**region._asdict(), "middle": list(region.middle)},
    }
    settings |= {"divisor": chosen.divisor} if chosen.divisor > 1 else {}
    if len(table.groups) and chosen.split != "random":
        counted = task.divided_units(table, chosen.split, settings["side"])
        settings["divided"] = None if counted is None else counted._asdict()
    parts = read_parts(table, settings, 0)
    if record is None:
        options = {"rows": preset.made, "split": chosen.split, **_fewer(chosen)}
        made = generated("places with a smooth target", options, _parts(parts))
        return PlacesOfPlan(settings, table, parts, made, None)
    phrase = f"{FOLD_PHRASES[chosen.split]}, another one for each seed"
    if divided := settings.get("divided"):
        phrase = f"{phrase}, with {divided['divided']:,} of {count_of(divided['of'], divided['what'])} in several"
    options = {**record.options, "parts": phrase, **_fewer(chosen)}
    record = replace(record, parts=_parts(parts, table), options=options)
    return PlacesOfPlan(settings, table, parts, record, request.source)


def _fewer(chosen: PlacesCondition) -> dict[str, str]:
    """Option of a record that tells data of a condition with fewer training rows apart."""
    return {"training rows": f"1/{chosen.divisor} of them"} if chosen.divisor > 1 else {}


def _logarithm(preset: PlacesPreset, table: PlaceTable) -> bool:
    """True if models learn the logarithm of the target."""
    if table.classes or preset.logarithm == "no":
        return False
    if preset.logarithm == "auto":
        return task.wants_logarithm(table.targets)
    if table.targets.min() <= 0:
        raise ValueError(
            f"the target has values down to {table.targets.min():g} and no logarithm of all. Use --set logarithm=no."
        )
    return True


def _parts(parts: Parts, table: PlaceTable | None = None) -> tuple[Part, ...]:
    """Parts of a record, with the number of rows of each class."""
    named = zip(("training", "validation", "test"), parts, strict=True)
    classes = () if table is None else table.classes
    return tuple(
        Part(
            name=name,
            counts={"rows": len(rows)},
            by_class=tuple(np.bincount(table.targets[rows], minlength=len(classes)).tolist())
            if table is not None and classes
            else (),
        )
        for name, rows in named
    )
