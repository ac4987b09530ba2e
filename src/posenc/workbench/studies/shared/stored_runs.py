"""Look-up of the stored runs that a page shows, by study, preset, data and panels. It makes no data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from posenc.workbench.dataset_record import DatasetRecord
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request, refuse_preset
from posenc.workbench.studies.shared import changes, page_records, planning
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
    every = [spec for spec in store.specs(study.name, label) if spec.procedure == study.procedure.id]
    if not every:
        raise ValueError(
            f"{store.root} holds no results of {study.name} {_options(study, request)}. "
            f"{_other_results(study, request, store)}"
            f"Make them: posenc run {_subject(study, request)} {_options(study, request)} {_out(store)}"
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
    keys = {_data_key(store, spec) for spec in planned}
    cells = {(spec.condition, spec.variant, spec.seed) for spec in planned}
    others = [
        spec
        for spec in store.specs(study.name, label)
        if spec.procedure == study.procedure.id
        and (spec.condition, spec.variant, spec.seed) not in cells
        and _data_key(store, spec) in keys
    ]
    if request.panels:
        shown = [study.panels[name] for name in planning.panels_of(study, request)]
        needed = {condition for panel in shown for condition in _stored_needs(panel, request, preset, others)}
        others = [spec for spec in others if spec.condition in needed]
    times = Counter((spec.condition, spec.variant, spec.seed) for spec in others)
    return [*planned, *(spec for spec in others if times[spec.condition, spec.variant, spec.seed] == 1)]


def _data_key(store: Store, spec: RunSpec) -> str:
    """Key of the record of a run's data; "" without one."""
    record = store.record_of(spec)
    return "" if record is None else record.key


def _stored_needs(panel: PanelSpec, request: Request, preset: Preset, runs: Sequence[RunSpec]) -> Needs:
    """Variants of a panel in each condition. Conditions that depend on data are taken from the stored runs."""
    if panel.shows_condition is None:
        return panel.needs(request, preset)
    needs = panel.needs(replace(request, data=None), preset)
    variants = [variant for some in needs.values() for variant in some]
    return {spec.condition: variants for spec in runs if panel.shows_condition(spec.condition)}


def _about(study: Study, request: Request, store: Store, runs: Sequence[RunSpec]) -> list[RunSpec]:
    """Runs about the data that a request names; without a name, about the only file of the store or the built-in data.

    Runs of conditions that take no file stand on every page.

    Raises ValueError if the store has no runs about the data, or if it has several data sets and none was named.
    """
    records = [store.record_of(spec) for spec in runs]
    if wanted := request.about or (str(request.source) if request.source else ""):
        digest = page_records.named_by(store, list(filter(None, records)), wanted)
        if not digest:
            raise ValueError(
                f"{store.root} holds no results of {study.name} {_options(study, request)} about {wanted}. "
                f"It holds: {_data_sets(records)}. Make them: posenc run {study.name} {quote(wanted)} "
                f"{_options(study, request)} {_out(store)}"
            )
        chosen = [spec for spec, record in zip(runs, records, strict=True) if record and record.digest == digest]
        if any(record.own for record in records if record and record.digest == digest):
            beside = [
                spec
                for spec in _others(runs, records)
                if not study.condition(study_condition(spec.condition)).takes_file
            ]
        else:
            shown = {spec.condition for spec in chosen}
            beside = [spec for spec in _others(runs, records) if spec.condition not in shown]
        return [*chosen, *beside]
    reading = [study.condition(study_condition(spec.condition)).takes_file for spec in runs]
    subjects = [record for record, reads in zip(records, reading, strict=True) if record and (record.own or reads)]
    if len({record.digest if record.own else "" for record in subjects}) > 1:
        raise ValueError(
            f"{store.root} holds results of {study.name} {_options(study, request)} about several data sets. Name the "
            f"one that the page is about: {page_records.options(subjects)}"
        )
    return list(runs)


def _others(runs: Sequence[RunSpec], records: Sequence[DatasetRecord | None]) -> list[RunSpec]:
    """Runs on built-in or generated data."""
    return [spec for spec, record in zip(runs, records, strict=True) if record is None or not record.own]


def _data_sets(records: Sequence[DatasetRecord | None]) -> str:
    return ", ".join(dict.fromkeys(record.label if record else "generated data" for record in records))


def subject(study: Study, request: Request, store: Store) -> Request:
    """Name the data of stored runs in a request: the file as its source, so that panels find its conditions.

    Args:
        study: The study.
        request: The request.
        store: The store.

    Returns:
        The request, with the digest of the data.

    Raises:
        ValueError: The store lacks the runs, or has several data sets and none was named.
    """
    record = page_records.own(store, find(study, replace(request, panels=None), store))
    if record is None:
        return replace(request, source=None)
    return replace(request, source=Path(record.name), about=record.digest)


def _refuse_repeated(study: Study, store: Store, runs: Sequence[RunSpec]) -> None:
    """Raise ValueError if a variant, condition and seed has several runs: of other data, devices or versions."""
    cells = Counter((spec.condition, spec.variant, spec.seed) for spec in runs)
    cell, times = cells.most_common(1)[0]
    if times > 1:
        same = [spec for spec in runs if (spec.condition, spec.variant, spec.seed) == cell]
        records = page_records.records_of(store, same)
        apart = len({record.digest for record in records}) > 1
        choose = f"Name the data of the page: {page_records.options(records)}" if apart else "Keep them apart: --out"
        raise ValueError(
            f"{store.root} holds {times} results of {cell[1]}, seed {cell[2]}: of other data, devices or versions. "
            f"{choose}"
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
                f"{_out(store)}"
            )


def _subject(study: Study, request: Request) -> str:
    """Name of the study, and the user's file if the request names one."""
    named = request.about or (str(request.source) if request.source else "")
    return f"{study.name} {quote(named)}" if named else study.name


def _out(store: Store) -> str:
    return f"--out {page_records.path_in_command(store.root)}"


def _options(study: Study, request: Request) -> str:
    return " ".join((f"--preset {request.preset}", *changes.options(study.presets, request)))


def _other_results(study: Study, request: Request, store: Store) -> str:
    """Sentence on what the store holds of the study instead; empty if it holds nothing.

    The results of the same preset with other changes come first, then those of other presets.
    """
    stored = sorted({spec.preset for spec in store.specs(study.name)})
    same = [label for label in stored if label.split(" ")[0] == request.preset]
    if same:
        made = " ".join(changes.options(study.presets, changes.request_of(same[0])))
        show = f"posenc report {_subject(study, request)} --preset {request.preset} {made} {_out(store)}"
        return f"It holds results of {'; '.join(same)}. Show them: {show}. "
    plain = [label for label in stored if label in study.presets]
    return f"It holds results of --preset {' and --preset '.join(plain)}. " if plain else ""
