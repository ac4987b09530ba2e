"""The settings of one run of the series study, as plain JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import torch
from msgspec.structs import replace

from posenc.frequencies import LENGTHS
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.data.series import time_phrase
from posenc.workbench.dataset_record import DatasetRecord, Part, generated
from posenc.workbench.files.user_files import short
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.series.conditions import MADE, SeriesCondition, condition
from posenc.workbench.studies.series.presets import PRESETS, SeriesPreset
from posenc.workbench.studies.series.stored_series import store_table
from posenc.workbench.studies.series.variants import BASELINES, LEARNED, VARIANTS, SeriesVariant, variant
from posenc.workbench.studies.shared.changes import changed_preset, explicit_fields
from posenc.workbench.studies.shared.own_data import EVALUATIONS, own_plan, parts_settings, refuse_generated
from posenc.workbench.tasks import series as task
from posenc.workbench.training.config import Best

BEST = Best(metric="mse", mode="min")
"""Choice of the step: by the error on the validation part."""
TIME_PARTS = "in the order of time: 70% of all readings for training, 10% for validation, 20% for testing"
ETT_PARTS = "the standard ones of ETT: 12, 4 and 4 months of 30 days"
ETT_TEST = 120 * LENGTHS["day"]
"""Length of the test part of ETT in seconds."""
WARMUP_DIVISOR = 20
"""Steps per step of warm-up."""
MADE_SEED = 0
"""Seed of the generated series whose times give the scales; those of all seeds have the same times."""


class SeriesOfRun(NamedTuple):
    """Series of a run.

    Attributes:
        settings: Entry "data" of the settings.
        windows: The series with their windows.
        record: Record of the data.
        source: The user's table; None for generated series.
    """

    settings: dict[str, Any]
    windows: task.SeriesWindows
    record: DatasetRecord
    source: Path | None


def run_settings(request: Request, store: Store, label: str, variant_label: str) -> dict[str, Any] | None:
    """Settings of a run, with the user's series in the store.

    Returns:
        The settings; None for a variant that the data cannot show, and for a baseline that cannot be computed.

    Raises:
        ValueError: The series cannot be read or are too short, or the variant cannot be built.
    """
    preset, chosen = changed_preset(PRESETS, request), condition(label)
    _refuse_sizes(preset)
    if not chosen.has_variant(variant_label):
        return None
    series = _series(request, store, chosen, preset)
    windows, scales = series.windows, task.time_scales(series.windows)
    if chosen.fills_in:
        windows = task.fill_in_windows(windows, str(request.source or "the generated series"))
    of_task = {"context": preset.context, "horizon": preset.horizon, "fills_in": chosen.fills_in}
    of_task |= {"hidden": "no reading of a part twice"} if chosen.fills_in else {}
    settings: dict[str, Any] = {"data": series.settings, "task": of_task, "scales": scales.plain}
    settings["dataset"] = store.records.add(series.record, series.source)
    if own_plan(preset, request) is not None:
        counts = {part.replace("training", "train"): len(each.starts) for part, each in windows.parts.items()}
        settings |= parts_settings("given", counts, "windows")
    if variant_label in BASELINES:
        lacking = variant_label == "boosting" and not task.has_boosting()
        lacking = lacking or (variant_label == "seasonal" and not scales.periods)
        return None if lacking else {"baseline": variant_label, **settings}
    row = variant(variant_label, preset.model, windows.length, scales)
    if row is None:
        return None
    if variant_label not in (*VARIANTS, *LEARNED):
        _refuse_unread(variant_label, row, preset, windows, scales)
    training, steps = preset.training, preset.training.epochs
    explicit = explicit_fields(PRESETS, request, "training")
    training = replace(
        training,
        batch=min(training.batch, len(windows.parts[task.TRAINING].starts)),
        warmup_steps=max(steps // WARMUP_DIVISOR, 1),
        decay_steps=steps,
        evaluate_every=max(1, steps // EVALUATIONS),
        best=BEST,
    )
    return {
        "row": msgspec.to_builtins(row),
        "model": msgspec.to_builtins(preset.model),
        "training": replace(training, **explicit).plain,
        "device": request.device,
        **settings,
    }


def remarks(store: Store, specs: Sequence[RunSpec]) -> tuple[str, ...]:
    """Sentences on baselines that were left out."""
    if task.has_boosting():
        return ()
    return ("The baseline boosting is left out: it needs scikit-learn (pip install scikit-learn).",)


def _refuse_unread(
    label: str, row: SeriesVariant, preset: SeriesPreset, windows: task.SeriesWindows, scales: task.TimeScales
) -> None:
    """Raise ValueError for a scheme that cannot read the positions of some windows, as a table of a fixed range."""
    of_test = windows.parts[task.TEST]
    readings = windows.readings(of_test.take(torch.tensor([0, len(of_test.starts) - 1])))
    hidden = torch.arange(windows.length).expand(2, -1) >= windows.context
    with torch.no_grad(), torch.random.fork_rng():
        try:
            row.model(preset.model, windows.length)(readings.values, row.positions(readings.times, scales), hidden)
        except (ValueError, RuntimeError) as error:
            raise ValueError(f"the variant {label!r} cannot read the view {row.view}: {short(error, 300)}") from None


def _refuse_sizes(preset: SeriesPreset) -> None:
    if preset.context < task.LEAST_CONTEXT or preset.horizon < 1:
        raise ValueError(
            f"a context has at least {task.LEAST_CONTEXT} readings, and a horizon at least 1; got "
            f"context={preset.context} and horizon={preset.horizon}. Use --set context=24 --set horizon=8."
        )


def _series(request: Request, store: Store, chosen: SeriesCondition, preset: SeriesPreset) -> SeriesOfRun:
    if request.source is not None and chosen.series not in MADE:
        refuse_generated(request, ("series", "readings"))
        return _of_table(request, request.source, store, preset)
    kind: task.Kind = "no periods" if chosen.series == "no periods" else "periods"
    made = task.made_series(kind, preset.series, preset.readings, MADE_SEED)
    ends = task.part_times(made)
    windows = task.make_windows(made, preset.context, preset.horizon, ends, "the generated series")
    options = {"made": kind, "series": preset.series, "readings": preset.readings}
    record = generated(f"series with {kind}" if kind == "periods" else "series without periods", options)
    record = replace(record, parts=_parts(windows))
    return SeriesOfRun(options | {"ends": list(ends)}, windows, record, None)


def _of_table(request: Request, path: Path, store: Store, preset: SeriesPreset) -> SeriesOfRun:
    """The series of the user's table, in the store."""
    stated = msgspec.convert(request.reading, ReadingOptions)
    digest, table = store_table(store.root, path, stated)
    ends = task.part_times(table.series, table.columns)
    windows = task.make_windows(table.series, preset.context, preset.horizon, ends, str(path))
    scales = task.time_scales(windows)
    options = {
        "form": table.form,
        **stated.plain,
        "columns": ", ".join(f"{name} {value}" for name, value in table.options.items()),
        "series": len(windows.names),
        "parts": ETT_PARTS if ends.test - ends.validation == ETT_TEST else TIME_PARTS,
        "shortest scale": time_phrase(scales.shortest),
        "longest scale": time_phrase(scales.longest),
        "periods of the calendar": ", ".join(scales.periods) or "none fits",
    }
    record = DatasetRecord(
        kind="series",
        name=path.resolve().name,
        digest=digest,
        parts=_parts(windows),
        options=options,
        left_out=(*table.left_out, *windows.left_out),
        own=True,
    )
    return SeriesOfRun({"table": digest, "ends": list(ends)}, windows, record, path)


def _parts(windows: task.SeriesWindows) -> tuple[Part, ...]:
    """Parts of a record, with the number of windows."""
    return tuple(Part(name=name, counts={"windows": len(each.starts)}) for name, each in windows.parts.items())
