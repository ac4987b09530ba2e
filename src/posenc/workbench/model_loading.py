"""Trained models of a store, as modules: choice of one run, and its model with the trained weights.

import posenc
field = posenc.load("runs", study="image-fit", variant="multires", seed=0)
print(field.convention)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote

from torch import nn

from posenc.lookup.name_suggestion import plain_name, unknown
from posenc.workbench import studies
from posenc.workbench.report.number_format import join_words
from posenc.workbench.request_options import SchemeOfRun, scheme_names
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.run_description import find_run
from posenc.workbench.storage.store import Store
from posenc.workbench.storage.stored import Damage, Stored, StoreError
from posenc.workbench.studies.shared import changes, page_records
from posenc.workbench.studies.shared.declarations import MAIN, full_budget_of
from posenc.workbench.studies.shared.lr_sweep import study_condition
from posenc.workbench.studies.shared.stored_model import trained_module
from posenc.workbench.studies.shared.study import Study

MOST_CHOICES = 12
"""Largest number of choices that a message lists."""


def load(
    store: str | Path,
    *,
    study: str | None = None,
    variant: str | None = None,
    seed: int | None = None,
    condition: str | None = None,
    preset: str | None = None,
    source: str | Path | None = None,
    run: str | None = None,
    schemes: Sequence[SchemeOfRun] | None = None,
) -> nn.Module:
    """Load the trained model of one run.

    The module is in evaluation mode and on the CPU. It has further attributes:

    - ``convention``: sentences on its input and output: order of the axes, pixel centers, box, ranges, channels;
    - ``run_spec``: the specification of the run, with all settings;
    - ``positions``: the positions of its tokens, if all inputs have the same (masked, permuted, nmar, latin-squares);
    - ``classes``, ``classify`` and ``reading``, if it classifies images (gridpe, sc-pe) or clouds (points): the names
      of its classes, a function from the path of a file, an image of Pillow or an array of points (N, 3) to the name
      of its class, and how the file is read: shape, fit and background of the training images; number of points,
      features and scale of the clouds;
    - ``encode`` and ``decode``, if it was trained on a text (language): from a string to its tokens (N,), and back.

    In short: ``image-fit`` reads (row, column) from 0 to 1, where pixel (i, j) of H x W pixels is at ((i + 1/2) / H,
    (j + 1/2) / W), and returns colors from 0 to 1. ``shape-fit`` reads (x, y, z) in the unit cube and returns a signed
    distance, negative inside. ``globe`` reads the view of a place that its encoding needs, such as (longitude,
    latitude) in radians. ``scene`` reads rays in the unit cube and returns colors, opacities and depths. ``gridpe`` and
    ``sc-pe`` read normalized images (B, C, H, W), ``points`` features and positions of points, ``language`` token
    numbers, and return logits. ``masked``, ``permuted`` and ``nmar`` read values, positions and the numbers of the
    hidden tokens.

    Args:
        store: The store, such as "runs".
        study: Name of the study. Default: the only one with trained models.
        variant: Label of the encoding. Default: the only one.
        seed: Seed of the run. Default: the only one.
        condition: Label of the condition. Default: the main one, or the only one.
        preset: Preset of the run. Default: the only one.
        source: Data of the run: name, NAME-DIGEST6 or path of the file or folder. Default: the only data.
        run: First digits of the identity of the run, as ``posenc results`` prints them, in place of all names.
        schemes: Your own schemes that the model has, as ``posenc.workbench.run`` takes them, with the code that they
            had then: no code is read from a store.

    Returns:
        The module.

    Raises:
        StoreError: The folder is not a store, the run is damaged, or it has no weights.
        ValueError: No run or several runs fit; the message lists the choices.

    Example:
        >>> import tempfile
        >>> from posenc import load
        >>> from posenc.workbench import RunResult, RunSpec, Store
        >>> store = Store(tempfile.mkdtemp())
        >>> spec = RunSpec(study="globe", variant="xyz", seed=0, preset="quick", procedure="globe.train", settings={})
        >>> store.finish(spec, RunResult(metrics={"rmse": 0.5}), {"seconds": 1.0})
        >>> try:
        ...     load(store.root, study="globe", variant="fourier")
        ... except ValueError as error:
        ...     print(str(error).partition(": ")[2])
        there is no variant 'fourier'. They have xyz.
    """
    opened = Store(store, create=False)
    scheme_names(schemes)  # makes their code available
    names = {"study": study, "preset": preset, "variant": variant, "seed": seed, "condition": condition}
    return model_of(opened, choose_run(opened, names, source, run))


def choose_run(
    store: Store, names: dict[str, str | int | None], source: str | Path | None = None, run: str | None = None
) -> Stored:
    """Choose one trained run of a store.

    Args:
        store: The store.
        names: Study, preset, variant, seed and condition of the run; None for the only one.
        source: Data of the run: name, NAME-DIGEST6 or path; None for the only data.
        run: First digits of its identity, in place of all names.

    Returns:
        The run.

    Raises:
        StoreError: The run is damaged.
        ValueError: No run or several runs fit; the message lists the choices.
    """
    if run is not None:
        if source is not None or any(value is not None for value in names.values()):
            raise ValueError("run= names one run. Use it without study, variant, seed, condition, preset and source.")
        return _by_identity(store, run)
    try:
        spec = _chosen(store, names, source)
    except ValueError as error:
        if not (damaged := store.damaged()):
            raise
        more = f" and {len(damaged) - 1} more" if len(damaged) > 1 else ""
        raise ValueError(
            f"{error} Damaged runs are left out: {damaged[0]}{more}. List them: posenc store verify --out {store.root}"
        ) from error
    return store.read(spec.identity)


def _chosen(store: Store, names: dict[str, str | int | None], source: str | Path | None) -> RunSpec:
    specs = [spec for spec in store.specs() if _is_trained(spec)]
    if not specs:
        raise ValueError(f"{store.root} has no trained model. Train some: posenc run --help")
    for name in ("study", "preset", "variant"):
        specs = _named(store, specs, name, names[name])
    specs = _about(store, specs, source)
    specs = _named(store, specs, "condition", names["condition"])
    if names["condition"] is None:
        whole = [spec for spec in specs if _is_whole(spec)] or specs
        specs = [spec for spec in whole if spec.condition == MAIN] or whole
    specs = _named(store, specs, "seed", names["seed"])
    if len({spec.identity for spec in specs}) > 1:
        raise ValueError(_ambiguous(store, specs))
    return specs[0]


def _is_trained(spec: RunSpec) -> bool:
    """True for a run that trains a model or a baseline of a known study, False for one that measures a model."""
    study = studies.studies().get(spec.study)
    return study is not None and study.procedure.id == spec.procedure


def _is_whole(spec: RunSpec) -> bool:
    """True for a condition of the study itself: not half the budget, and no learning rate of a sweep."""
    return full_budget_of(spec.condition) is None and study_condition(spec.condition) == spec.condition


def _value(spec: RunSpec, name: str) -> str | int:
    return getattr(spec, name)


def _named(store: Store, specs: list[RunSpec], name: str, value: str | int | None) -> list[RunSpec]:
    """The runs with this value of a label; all of them for None."""
    if value is None:
        return specs
    known = sorted({_value(spec, name) for spec in specs}, key=str)
    exact = [spec for spec in specs if _value(spec, name) == value]
    if not exact and name == "preset":  # a preset with changed settings is stored as "quick epochs=4"
        exact = [spec for spec in specs if spec.preset.partition(" ")[0] == value]
    if not exact and isinstance(value, str):
        exact = [spec for spec in specs if plain_name(str(_value(spec, name))) == plain_name(value)]
    if not exact:
        wrong = f"there is no seed {value}." if name == "seed" else unknown(name, str(value), [str(k) for k in known])
        raise ValueError(f"among these runs of {store.root}: {wrong} They have {_listed(known)}.")
    return exact


def _about(store: Store, specs: list[RunSpec], source: str | Path | None) -> list[RunSpec]:
    """The runs about these data; all of them for None."""
    if source is None:
        return specs
    records = page_records.records_of(store, specs)
    digest = page_records.named_by(store, records, str(source))
    if not digest:
        labels = list(dict.fromkeys(record.label for record in records))
        raise ValueError(
            f"{store.root} holds no such run about {source}. These runs are about {_listed(labels) or 'no own data'}."
        )
    return [spec for spec in specs if (record := store.record_of(spec)) is not None and record.digest == digest]


def _listed(values: Sequence[object]) -> str:
    shown = ", ".join(map(str, values[:MOST_CHOICES]))
    return f"{shown} and {len(values) - MOST_CHOICES} more" if len(values) > MOST_CHOICES else shown


def _ambiguous(store: Store, specs: Sequence[RunSpec]) -> str:
    """Sentence on the labels that several fitting runs differ in."""
    differing = []
    for name in ("study", "preset", "condition", "variant", "seed"):
        values = sorted({_value(spec, name) for spec in specs}, key=str)
        if len(values) > 1:
            differing.append(f"{name} ({_listed(values)})")
    records = {record.label for spec in specs if (record := store.record_of(spec)) is not None}
    if len(records) > 1:
        differing.append(f"source ({_listed(sorted(records))})")
    count = len({spec.identity for spec in specs})
    if not differing:
        keys = _listed(sorted({spec.identity[:8] for spec in specs}))
        return f"{count} runs of {store.root} have these labels and differ in their settings. Name one by run: {keys}."
    return f"{count} runs of {store.root} fit. Name {join_words(differing)}."


def _by_identity(store: Store, key: str) -> Stored:
    """The trained run whose identity begins with these digits."""
    found = find_run(store, key)
    if isinstance(found, Damage):
        raise StoreError(f"{found}. Train it again: the posenc run command that made it.")
    if not _is_trained(found.spec) and found.spec.parents:
        parents = " or ".join(each[:8] for each in found.spec.parents.values())
        raise ValueError(f"run {key} measures a trained model and has none of its own. Name that run: {parents}.")
    return found


def model_of(store: Store, stored: Stored) -> nn.Module:
    """The trained model of a run, as ``load`` returns it.

    Args:
        store: The store.
        stored: The run.

    Returns:
        The module.

    Raises:
        StoreError: The run has no weights, or is damaged.
        ValueError: The store lacks data from which the model is built.
    """
    study = studies.find(stored.spec.study)
    refuse_without_weights(study, stored)
    declared = study.stored_model
    assert declared is not None, "refuse_without_weights has refused it"
    return trained_module(declared, store, stored)


def refuse_without_weights(study: Study, stored: Stored) -> None:
    """Refuse a run that stores no weights.

    Args:
        study: Its study.
        stored: The run.

    Raises:
        StoreError: It has no weights; the message names the command that trains it with them, if there is one.
    """
    what, command = _in_words(stored.spec), str(stored.provenance.get("command") or "")
    if study.stored_model is None:
        raise StoreError(f"{what} has no weights: the runs of {study.name} store none.")
    if not stored.has_weights:
        options = changes.options(study.presets, changes.request_of(stored.spec.preset))
        plain = " ".join(("posenc run", quote(study.name), "--preset", stored.spec.preset.split()[0], *options))
        again = f"{command if command.startswith('posenc run ') else plain} --out NEW"
        raise StoreError(
            f"{what} has no weights: it came from a pack, and packs hold none. The command that trains it with them: "
            f"{again}"
        )
    if not stored.has_network:
        raise StoreError(f"{what} has no weights: it is a baseline that trains no network. Name another variant.")


def _in_words(spec: RunSpec) -> str:
    where = "" if spec.condition == MAIN else f", {spec.condition}"
    return f"{spec.study}, {spec.variant}{where}, seed {spec.seed},"
