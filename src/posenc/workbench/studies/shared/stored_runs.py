"""Look-up of the stored runs that a page shows, by study, preset, data and panels. It makes no data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from shlex import quote
from typing import TYPE_CHECKING

from posenc.workbench.runs import RunSpec
from posenc.workbench.store import Store
from posenc.workbench.studies import Request, refuse_preset
from posenc.workbench.studies.shared import changes, planning, sources
from posenc.workbench.studies.shared.declarations import Needs, PanelSpec, Preset
from posenc.workbench.studies.shared.lr_sweep import study_condition

if TYPE_CHECKING:
    from posenc.workbench.studies.shared.study import Study


def find(study: Study, request: Request, store: Store) -> list[RunSpec]:
    """Find the finished training runs that a page shows; see ``Study.stored``.

    Args:
        study: The study.
        request: The request.
        store: The store.

    Returns:
        The runs.

    Raises:
        ValueError: The store lacks runs of the request, or has several results of the same run.
    """
    refuse_preset(study, request.preset)
    preset, label = changes.changed_preset(study.presets, request), changes.preset_label(study.presets, request)
    every = [spec for spec in store.specs() if (spec.study, spec.preset) == (study.name, label)]
    every = [spec for spec in every if spec.procedure == study.procedure.id]
    if not every:
        raise ValueError(
            f"{store.root} holds no results of {study.name} {_options(study, request)}. "
            f"{_other_results(study, request, store)}"
            f"Make them: posenc run {_subject(study, request)} {_options(study, request)} --out {store.root}"
        )
    runs = _about(study, request, store, every)
    _refuse_repeated(study, store, runs)
    if not request.panels:
        return runs
    needed = set[str]()
    for name in planning.panels_of(study, request):
        needed |= {*_stored_needs(study.panels[name], request, preset, runs)}
    _refuse_missing_panels(study, request, store, runs)
    return [spec for spec in runs if study_condition(spec.condition) in needed]


def joined(study: Study, request: Request, store: Store, planned: Sequence[RunSpec]) -> list[RunSpec]:
    """Runs of a page: the planned ones, and those of earlier commands that the same page shows; see ``Study.joined``.

    A stored run joins if it has the preset, the changed settings and the data of a planned run, and a condition that
    the panels need. A variant and seed with several stored results is left out: the page could not tell them apart.

    Args:
        study: The study.
        request: The request.
        store: The store.
        planned: The runs of the request.

    Returns:
        The planned runs, then the others.
    """
    preset, label = changes.changed_preset(study.presets, request), changes.preset_label(study.presets, request)
    keys = {study.data_key(spec.settings) for spec in planned}
    cells = {(spec.condition, spec.variant, spec.seed) for spec in planned}
    others = [
        spec
        for spec in store.specs()
        if (spec.study, spec.preset, spec.procedure) == (study.name, label, study.procedure.id)
        and (spec.condition, spec.variant, spec.seed) not in cells
        and study.data_key(spec.settings) in keys
    ]
    if request.panels:
        shown = [study.panels[name] for name in planning.panels_of(study, request)]
        needed = {condition for panel in shown for condition in _stored_needs(panel, request, preset, others)}
        others = [spec for spec in others if spec.condition in needed]
    times = Counter((spec.condition, spec.variant, spec.seed) for spec in others)
    return [*planned, *(spec for spec in others if times[spec.condition, spec.variant, spec.seed] == 1)]


def _stored_needs(panel: PanelSpec, request: Request, preset: Preset, runs: Sequence[RunSpec]) -> Needs:
    """Variants of a panel in each condition. Conditions that depend on data are taken from the stored runs."""
    if panel.shows_condition is None:
        return panel.needs(request, preset)
    needs = panel.needs(replace(request, data=None), preset)
    variants = [variant for some in needs.values() for variant in some]
    return {spec.condition: variants for spec in runs if panel.shows_condition(spec.condition)}


def _about(study: Study, request: Request, store: Store, runs: Sequence[RunSpec]) -> list[RunSpec]:
    """Runs about the user's file; without a name, about the only file of the store or the built-in data.

    Raises ValueError if the store has no runs about the file, or if it has several files and none was named.
    """
    names, options = sources.names(store), _options(study, request)
    by_name: dict[str, list[RunSpec]] = {}
    anywhere = [spec for spec in runs if not study.data_key(spec.settings)]
    for spec in runs:
        if key := study.data_key(spec.settings):
            by_name.setdefault(names.get(key, ""), []).append(spec)
    if request.source is not None:
        about = by_name.get(request.source.name)
        if about is None:
            raise ValueError(
                f"{store.root} holds no results of {study.name} {options} about {request.source.name}. "
                f"Make them: posenc run {_subject(study, request)} {options} --out {store.root}"
            )
        return [*anywhere, *about]
    if len(by_name) > 1:
        listed = ", ".join(name or "built-in data" for name in by_name)
        raise ValueError(
            f"{store.root} holds results about several data sets: {listed}. Name the one that the page is about: "
            f"posenc report {study.name} FILE --out {store.root}"
        )
    return list(runs)


def _refuse_repeated(study: Study, store: Store, runs: Sequence[RunSpec]) -> None:
    """Raise ValueError if a variant, condition and seed has several runs: of other data, devices or versions."""
    cells = Counter((spec.condition, spec.variant, spec.seed) for spec in runs)
    (_, variant, seed), times = cells.most_common(1)[0]
    if times > 1:
        raise ValueError(
            f"{store.root} holds {times} results of {variant}, seed {seed}: of other data, devices or versions. Name "
            f"what the page is about, posenc report {study.name} PATH, or keep them apart: --out"
        )


def _refuse_missing_panels(study: Study, request: Request, store: Store, runs: Sequence[RunSpec]) -> None:
    preset = changes.changed_preset(study.presets, request)
    for name in (each for each in request.panels or () if each != planning.ALL):
        panel = study.panels[name]
        needs = _stored_needs(panel, request, preset, runs)
        needed = panel.shows_condition is not None or panel.needs(request, preset)
        if needed and not any(spec.variant in needs.get(spec.condition, ()) for spec in runs):
            raise ValueError(
                f"the panel {name} needs runs that {store.root} lacks. "
                f"Make them: posenc run {_subject(study, request)} {_options(study, request)} --panels {name} "
                f"--out {store.root}"
            )


def _subject(study: Study, request: Request) -> str:
    """Name of the study, and the user's file if the request names one."""
    return study.name if request.source is None else f"{study.name} {quote(str(request.source))}"


def _options(study: Study, request: Request) -> str:
    return " ".join((f"--preset {request.preset}", *changes.options(study.presets, request)))


def _other_results(study: Study, request: Request, store: Store) -> str:
    """Sentence on what the store holds of the study instead; empty if it holds nothing.

    The results of the same preset with other changes come first, then those of other presets.
    """
    stored = sorted({spec.preset for spec in store.specs() if spec.study == study.name})
    same = [label for label in stored if label.split(" ")[0] == request.preset]
    if same:
        return f"It holds results of {'; '.join(same)}. "
    plain = [label for label in stored if label in study.presets]
    return f"It holds results of --preset {' and --preset '.join(plain)}. " if plain else ""
