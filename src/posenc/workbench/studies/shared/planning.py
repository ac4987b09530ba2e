"""Plan of a request: its runs with their conditions, variants and settings, and their cost."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from posenc.lookup.name_suggestion import plain_name
from posenc.workbench import request_checks, variant_labels
from posenc.workbench.memory import free_memory, require_memory
from posenc.workbench.progress import CostEstimate
from posenc.workbench.provenance import cores
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.storage.stored_records import SETTING
from posenc.workbench.studies import Request, refuse_preset
from posenc.workbench.studies.shared import changes
from posenc.workbench.studies.shared.declarations import full_budget_of, half_budget_of
from posenc.workbench.studies.shared.learned_tables import PREFIX, learned, sigma_of
from posenc.workbench.studies.shared.lr_sweep import (
    chosen_rate,
    refuse_sweep,
    study_condition,
    sweep_specs,
    swept_condition,
    swept_seeds,
    with_rate,
)
from posenc.workbench.studies.shared.own_data import own_plan, with_half_budget
from posenc.workbench.studies.shared.written_schemes import repeated

if TYPE_CHECKING:
    from posenc.workbench.studies.shared.study import Study

ALL = "all"
SIGN = re.compile("[-_]-")
"""A hyphen after another one, as in "learned--0.2"."""
WORKER_BYTES = 0.5 * 2**30
"""Memory of torch and its libraries in one process."""
START_SECONDS, PAGE_SECONDS = 3.0, 4.0
"""Processor time until a worker process has imported torch and the study, and that of drawing a quick page."""


def plan(study: Study, request: Request, store: Store) -> list[RunSpec]:
    """Runs of a request, without repetitions; see ``Study.plan``.

    Args:
        study: The study.
        request: The request.
        store: Receives the data of the runs.

    Returns:
        The runs. A run that has several labels is listed once for each.

    Raises:
        ValueError: The request cannot be run, or a run does not fit into memory.
    """
    refuse_preset(study, request.preset)
    request_checks.refuse_reading(study.name, request.source, request.reading)
    request = with_present_labels(study, request)
    changes.refuse_varied(study, request, panels_of(study, request))
    label = changes.preset_label(study.presets, request)
    stored: dict[tuple[str, str], list[int]] = {}
    if request.lr_sweep:
        refuse_sweep(study, request)
        stored = swept_seeds(store, study.name, label)
    planned: dict[tuple[str, str, str], RunSpec] = {}
    for condition, variants in needed(study, request).items():
        for variant in variants:
            settings = _settings(study, request, store, condition, variant)
            if settings is None:
                continue
            settings = _with_record(settings, store)
            sweep: dict[float, RunSpec] = {}
            if request.lr_sweep:
                at = full_budget_of(condition) or condition
                settings, sweep = _swept(study, request, store, stored, at, variant, settings)
            specs = [
                study.procedure.spec(
                    study=study.name,
                    preset=label,
                    condition=condition,
                    variant=variant,
                    seed=seed,
                    settings=settings,
                )
                for seed in seeds_of(study, request)
            ]
            unfinished = not all(store.finished(spec.identity) for spec in specs)
            if study.cost.smaller and request.device == "cpu" and unfinished:
                require_memory(WORKER_BYTES + study.cost.memory(specs[0]), f"training {variant}", study.cost.smaller)
            for spec in (*specs, *sweep.values()):
                planned.setdefault((spec.identity, spec.condition, variant), spec)
    _refuse_unread_source(study, request, {spec.condition for spec in planned.values()})
    same = repeated(list(planned.values()), request.schemes or (), _named(study, request))
    return [spec for spec in planned.values() if spec.variant not in same]


def _refuse_unread_source(study: Study, request: Request, conditions: set[str]) -> None:
    """Raise ValueError for a file that no run of a request reads."""
    read = (study.condition(study_condition(full_budget_of(label) or label)).takes_file for label in conditions)
    if request.source is not None and conditions and not any(read):
        raise ValueError(
            f"no run reads {request.source}: the panels {', '.join(panels_of(study, request))} have data of their own. "
            "Leave the file out, or ask for other panels."
        )


def _named(study: Study, request: Request) -> set[str]:
    """Labels that panels of the study need."""
    every = needed(study, replace(request, schemes=None, panels=(ALL,))) if request.schemes else {}
    return {label for labels in every.values() for label in labels}


def _with_record(settings: dict[str, Any], store: Store) -> dict[str, Any]:
    """Settings with the key of the record of their data. A reader names the record; that of generated data follows."""
    record = None if SETTING in settings else store.records.of(settings)
    return settings if record is None else settings | {SETTING: store.records.add(record)}


def _swept(
    study: Study,
    request: Request,
    store: Store,
    stored: Mapping[tuple[str, str], Sequence[int]],
    condition: str,
    variant: str,
    settings: dict[str, Any],
) -> tuple[dict[str, Any], dict[float, RunSpec]]:
    """Settings with the rate that a sweep chose, once its runs are finished, and the runs of the sweep by rate.

    A finished sweep with another seed counts, so that all seeds of a variant have one rate.
    """
    full = study.run_settings(request, store, condition, variant) or {}
    seeds = (*stored.get((condition, variant), ()), seeds_of(study, request)[0])
    sweeps = [sweep_specs(study, request, condition, variant, full, seed) for seed in seeds]
    finished = (each for each in sweeps if all(store.finished(spec.identity) for spec in each.values()))
    by_rate = next(finished, sweeps[-1])
    rate = chosen_rate(store, by_rate)
    return settings if rate is None else with_rate(settings, rate), by_rate


def sweep(study: Study, request: Request, store: Store) -> list[RunSpec]:
    """Runs that compare the learning rates of a request, which are executed before the others.

    Args:
        study: The study.
        request: The request.
        store: Receives the data of the runs.

    Returns:
        The runs; none for a request without learning rates.
    """
    if not request.lr_sweep:
        return []
    return [spec for spec in plan(study, request, store) if swept_condition(spec.condition) is not None]


def seeds_of(study: Study, request: Request) -> Sequence[int]:
    """Seeds of a request: its own, those of the plan for own data, or those of the preset.

    Args:
        study: The study.
        request: The request.

    Returns:
        The seeds.
    """
    preset = changes.changed_preset(study.presets, request)
    own = own_plan(preset, request)
    return request.seeds or (preset.seeds if own is None else own.seeds)


def _settings(study: Study, request: Request, store: Store, condition: str, variant: str) -> dict[str, Any] | None:
    """Settings of a run; None for a variant that cannot represent the data, or that half the budget does not change."""
    full = full_budget_of(condition)
    if full is None:
        return study.run_settings(request, store, condition, variant)
    own, settings = own_plan(study.presets[request.preset], request), study.run_settings(request, store, full, variant)
    if settings is None or own is None or (own.parts and "split" not in settings):
        return None
    return with_half_budget(settings)


def needed(study: Study, request: Request) -> dict[str, list[str]]:
    """Variants that a request needs in each condition, also in those with half the budget.

    Args:
        study: The study.
        request: The request. If it names variants, they replace the variants of the panels.

    Returns:
        Condition -> variants.
    """
    wanted, own = _needed_in_full(study, request), own_plan(study.presets[request.preset], request)
    halves = {half_budget_of(label): variants for label, variants in wanted.items()} if own and own.half else {}
    return wanted | halves


def _needed_in_full(study: Study, request: Request) -> dict[str, list[str]]:
    """Variants that a request needs in each condition of the study itself."""
    preset, wanted = changes.changed_preset(study.presets, request), dict[str, list[str]]()
    for name in panels_of(study, request):
        for condition, variants in study.panels[name].needs(request, preset).items():
            known = wanted.setdefault(condition, [])
            known += [variant for variant in variants if variant not in known]
    if request.conditions:
        request_checks.refuse_conditions(request.conditions, wanted, lambda label: study.condition(label).needs)
        wanted = {label: variants for label, variants in wanted.items() if label in request.conditions}
    if request.schemes:
        meant = [_meant(study, label, wanted) for label in request.schemes]
        wanted = {condition: [each for one in meant for each in one.get(condition, ())] for condition in wanted}
        if own_plan(preset, request) is not None:
            always = (
                () if any(name in study.baselines for some in wanted.values() for name in some) else study.baselines
            )
            wanted = {condition: [*dict.fromkeys((*some, *always))] for condition, some in wanted.items() if some}
    return wanted


def with_present_labels(study: Study, request: Request) -> Request:
    """Replace the names of variants in a request by their present labels.

    A former label stands for the present one. A name that differs from a label in case, hyphens or underscores alone
    stands for that variant, so that a variant and an encoding of one name are the same model. Two hyphens in a row are
    left alone, because the second one may be a sign. The number of a learned table is written in its shortest form, so
    that learned-2.0 is learned-2.

    Args:
        study: The study.
        request: The request, with the names that a user gave.

    Returns:
        The request with labels of variants, each once, or texts of encodings.
    """
    if not request.schemes:
        return request
    every = Request(preset="", panels=(ALL,))
    named = {
        plain_name(label): label
        for name, preset in study.presets.items()
        for panel in study.panels.values()
        for variants in panel.needs(replace(every, preset=name), preset).values()
        for label in variants
    }
    renamed = variant_labels.OLD_LABELS.get(study.name, {})
    former = {plain_name(old): renamed[old] for old in reversed(list(renamed))}  # of equal names the first one counts
    present = [variant_labels.current_label(study.name, former.get(plain_name(each), each)) for each in request.schemes]
    present = [_with_shortest_number(label) for label in present]
    meant = (label if SIGN.search(label) else named.get(plain_name(label), label) for label in present)
    return replace(request, schemes=tuple(dict.fromkeys(meant)))


def _with_shortest_number(label: str) -> str:
    """Label of a learned table with its standard deviation as the studies write it: learned-2 for learned-2.0.

    Other labels, and numbers of more digits than a label has, stay as they are.
    """
    if not label.startswith(PREFIX):
        return label
    try:
        sigma = sigma_of(label)
    except ValueError:
        return label
    short = learned(sigma)
    return short if sigma_of(short) == sigma else label


def _meant(study: Study, label: str, wanted: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Conditions in which a variant asked for by name is trained, and its labels in them.

    These are the conditions that have the variant. If none has it, the sizes of it that a panel needs, NAME@SIZE. If
    there are none, all conditions: ``run_settings`` then reads the label, or refuses it.
    """
    sizes = {
        condition: [each for each in variants if each.startswith(f"{label}@")] for condition, variants in wanted.items()
    }
    return (
        {condition: [label] for condition in wanted if study.condition(condition).has_variant(label)}
        or {condition: labels for condition, labels in sizes.items() if labels}
        or {condition: [label] for condition in wanted}
    )


def panels_of(study: Study, request: Request) -> tuple[str, ...]:
    """Panels of a request, in the order of the page.

    A request that names no panels has those of its preset, without those that vary a setting which it changes.

    Args:
        study: The study.
        request: The request.

    Returns:
        Names of the panels.

    Raises:
        ValueError: A panel is unknown; the message has the nearest name.
    """
    if not request.panels:
        names = tuple(study.presets[request.preset].panels)
        varied = changes.changed_and_varied(study, request, names)
        return tuple(name for name in names if not varied[name]) or names
    request_checks.refuse_panels(study.name, request.panels, [*study.panels, ALL])
    return tuple(name for name in study.panels if name in request.panels or ALL in request.panels)


def changed_lines(study: Study, request: Request) -> list[str]:
    """Describe what a request changes, and the panels of its preset that it leaves out because they vary that.

    Args:
        study: The study.
        request: The request.

    Returns:
        One or two sentences; none without changes.
    """
    if not (changed := changes.differences(study.presets, request)):
        return []
    names = () if request.panels else study.presets[request.preset].panels
    left_out = [name for name in names if name not in panels_of(study, request)]
    verb = "varies" if len(left_out) == 1 else "vary"
    lines = [f"Changed from the preset: {', '.join(changed)}."]
    return lines + ([f"Panels left out: {', '.join(left_out)}, which {verb} this too."] if left_out else [])


def measurements(study: Study, request: Request, store: Store, specs: Sequence[RunSpec]) -> list[RunSpec]:
    """Measuring runs for the panels of a request; see ``Study.measurements``.

    Args:
        study: The study.
        request: The request.
        store: The store of the trained runs.
        specs: The trained runs.

    Returns:
        Measuring runs that are finished, or whose parents have stored weights.
    """
    preset = changes.changed_preset(study.presets, request)
    full = [spec for spec in specs if study_condition(spec.condition) == spec.condition]
    asked = [study.panels[name].measured(request, preset, store, full) for name in panels_of(study, request)]
    distinct = {(spec.identity, spec.condition, spec.variant): spec for some in asked for spec in some}
    return [spec for spec in distinct.values() if store.finished(spec.identity) or _readable(spec, store)]


def _readable(spec: RunSpec, store: Store) -> bool:
    """True if the weights of every parent are stored. Packs leave them out."""
    return all(store.finished(parent) and store.read(parent).has_weights for parent in spec.parents.values())


def without_weights(study: Study, request: Request, store: Store, specs: Sequence[RunSpec]) -> list[str]:
    """Panels of a request without some measurements, because runs came from packs, which hold no weights.

    Args:
        study: The study.
        request: The request.
        store: The store of the trained runs.
        specs: The trained runs.

    Returns:
        Names of the panels.
    """
    preset, missing = changes.changed_preset(study.presets, request), []
    for name in panels_of(study, request):
        wanted = study.panels[name].measured(request, preset, store, specs)
        if any(not store.finished(spec.identity) and not _readable(spec, store) for spec in wanted):
            missing.append(name)
    return missing


def processes_that_fit(study: Study, specs: Sequence[RunSpec], processes: int) -> int:
    """Number of processes whose runs fit into free memory together; see ``Study.processes_that_fit``.

    Args:
        study: The study.
        specs: The runs.
        processes: Upper limit.

    Returns:
        The number of processes, at least 1.
    """
    free = free_memory()
    if free is None:
        return processes
    most = min(processes, max(len(specs), cores()))  # More would never be started, and trying them would take forever.
    return max((n for n in range(2, most + 1) if _bytes_of(study, specs, n) <= free), default=1)


def estimate(study: Study, specs: Sequence[RunSpec], store: Store, processes: int) -> CostEstimate:
    """Time and memory of runs; see ``Study.estimate``.

    Args:
        study: The study.
        specs: The runs.
        store: The store with their data.
        processes: Number of processes that run at the same time.

    Returns:
        The estimate.
    """
    if not specs:
        return CostEstimate(seconds=0, memory_bytes=0, runs=0)
    each = _seconds_of_each(study, specs, store)
    processes = min(processes, len(specs))
    at_once = min(processes, cores()) if specs[0].device == "cpu" else processes
    return CostEstimate(
        seconds=max(sum(each) / at_once, max(each)) + START_SECONDS + PAGE_SECONDS + study.cost.page(specs),
        memory_bytes=_bytes_of(study, specs, processes),
        runs=len(specs),
    )


def _bytes_of(study: Study, specs: Sequence[RunSpec], processes: int) -> float:
    """Memory in bytes of the processes with the largest runs."""
    each = (WORKER_BYTES + memory for memory in _of_each(study, specs, study.cost.memory))
    return sum(sorted(each, reverse=True)[:processes])


def _seconds_of_each(study: Study, specs: Sequence[RunSpec], store: Store) -> list[float]:
    """Time of each run. Runs with half the steps are not timed, if the same runs with all steps are planned too."""
    trained = {(spec.condition, spec.variant): spec for spec in specs if _steps(spec)}
    timed, shares = list[RunSpec](), list[float]()
    for spec in specs:
        full = trained.get((full_budget_of(spec.condition) or "", spec.variant), spec)
        timed.append(full)
        shares.append(1.0 if full is spec else _steps(spec) / _steps(full))
    costs = _of_each(study, timed, lambda spec: study.cost.seconds(spec, store))
    return [share * cost for share, cost in zip(shares, costs, strict=True)]


def _steps(spec: RunSpec) -> float:
    """Epochs or steps of a run; 0 for one without a training, or with a time limit in place of steps."""
    training = spec.settings.get("training", {})
    return 0 if training.get("seconds") else training.get("epochs", 0)


def _of_each(study: Study, specs: Sequence[RunSpec], cost: Callable[[RunSpec], float]) -> list[float]:
    """Cost of each run by a function, computed once for runs of equal cost."""
    kinds = [_kind(study.cost.alike(spec)) for spec in specs]
    known = {kind: cost(spec) for kind, spec in dict(zip(kinds, specs, strict=True)).items()}
    return [known[kind] for kind in kinds]


def _kind(value: Any) -> bytes:
    return msgspec.json.encode(value, order="sorted")
