"""Page of a study: verdict, panels, claims and provenance, written from stored runs alone."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from posenc.version import __version__
from posenc.workbench.dataset_record import DatasetRecord
from posenc.workbench.processor_share import one_thread
from posenc.workbench.provenance import git_state, now
from posenc.workbench.report.calls_panel import calls_panel
from posenc.workbench.report.claims_by_paper import publication_heading
from posenc.workbench.report.claims_table import claims_table, count_verdicts, judge_claims
from posenc.workbench.report.data_panel import data_panel, notes
from posenc.workbench.report.live_page import LivePage, snapshot_path
from posenc.workbench.report.own_schemes_panel import failed_contracts, own_schemes_panel
from posenc.workbench.report.page import Panel, Table, Text, render_page, write_text
from posenc.workbench.report.preregistered import summary_panel
from posenc.workbench.report.provenance_panel import provenance_panel
from posenc.workbench.report.publications import PUBLICATIONS
from posenc.workbench.report.result_rows import left_out_values
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage import own_scheme_records
from posenc.workbench.storage.store import Store
from posenc.workbench.storage.stored import LeftOutError
from posenc.workbench.studies import Request
from posenc.workbench.studies.shared import changes, own_data_page, page_file, page_records, planning, run_scale
from posenc.workbench.studies.shared.compared_score import on_own_data
from posenc.workbench.studies.shared.declarations import MAIN, PanelSpec
from posenc.workbench.studies.shared.embedding_scale_panel import embedding_scale_panel, large_positions
from posenc.workbench.studies.shared.loading_panel import loading_panel
from posenc.workbench.studies.shared.lr_sweep import sweep_panel
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.studies.shared.position_views import view_in
from posenc.workbench.studies.shared.variant_names import names_table

if TYPE_CHECKING:
    from posenc.workbench.studies.shared.study import Study

CLAIMS_TITLE = "Published claims at this scale"
DEFAULT_FOLDER = "runs"
"""Folder of a store unless --out names another."""


def write(study: Study, request: Request, store: Store, specs: Sequence[RunSpec], failures: Mapping[str, str]) -> Path:
    """Write the page; see ``Study.page``.

    Args:
        study: The study.
        request: The request.
        store: The store.
        specs: The trained runs.
        failures: Identity to error message, for runs that failed.

    Returns:
        The HTML file.
    """
    path = page_file.folder(store) / f"{page_file.file_name(study, request, store, specs)}.html"
    return write_text(path, html(study, request, store, specs, failures))


def live(study: Study, request: Request, store: Store, specs: Sequence[RunSpec]) -> LivePage:
    """Make the live page of runs; see ``Study.live_page``.

    Args:
        study: The study.
        request: The request.
        store: The store.
        specs: The runs.

    Returns:
        The live page.
    """

    def draw() -> str | None:
        done = any(store.finished(spec.identity) for spec in specs)
        return html(study, request, store, specs, {}) if done else None

    waiting = Panel("Results", (Text(("No run has finished yet.",)),))
    title = _title(study, page_records.own(store, specs))
    blank = render_page(title=title, lead=study.lead, panels=[waiting], footer=f"posenc run {study.name}.")
    snapshots = dict[str, Path]()
    for spec in sorted(specs, key=lambda spec: store.finished(spec.identity)) if study.live else ():
        snapshots.setdefault(display_label(spec), snapshot_path(store.root, spec.identity))
    name = page_file.file_name(study, request, store, specs)
    return LivePage(page_file.folder(store) / f"{name}.html", blank, draw, snapshots)


@one_thread()
def html(study: Study, request: Request, store: Store, specs: Sequence[RunSpec], failures: Mapping[str, str]) -> str:
    """Draw the page from the finished runs.

    Args:
        study: The study.
        request: The request.
        store: The store.
        specs: The trained runs.
        failures: Identity to error message, for runs that failed.

    Returns:
        The HTML.
    """
    data, names = study.page_data(request, store, specs), planning.panels_of(study, request)
    data.folder.mkdir(parents=True, exist_ok=True)
    changed = changes.differences(study.presets, request)
    record = page_records.own(store, specs)
    limits = (*data.remarks, *_limits(study, request, changed, record is not None), *study.remarks(store, specs))
    own_schemes = own_scheme_records.records_of(store, (spec.variant for spec in data.done))
    limits = (*limits, *notes(page_records.records_of(store, specs)), *failed_contracts(own_schemes))
    limits = (*limits, *filter(None, [left_out_values(data.rows)]), *_single_seeds(data), *large_positions(data))
    own = on_own_data(data) and bool(study.compared(data))
    judged = bool(study.claims) and not (own or record is not None)
    answer = (*study.answer(data), *(_counted_claims(study, data) if judged else ()))
    calls = _calls(data)
    names_of_variants = names_table(calls, own_schemes, study.meanings)
    panels = [summary_panel(answer, own_data_page.judged_predictions(study, data), limits, names=names_of_variants)]
    drawn = {name: _drawn(study.panels[name], data) for name in names}
    titles = {name: some[0].title for name, some in drawn.items() if some}
    panels += [_claims(study, data, titles)] if judged else []
    panels += drawn.pop(study.first_panel, []) if own else []
    panels += own_data_page.own_data_panels(study, data, names) if own else []
    panels += [panel for some in drawn.values() for panel in some]
    settings = (
        _conditions(study, data),
        sweep_panel(store, data.repeated),
        embedding_scale_panel(data),
        calls_panel(calls, _views(study, data)),
        own_schemes_panel(own_schemes),
    )
    panels += [each for each in settings if each]
    if beside := () if changed else tuple(study.published(request.preset, data.rows)):
        panels.append(Panel("Published results of the same models", beside))
    if study.claims and not judged:
        panels.append(own_data_page.unjudged_claims(study))
    described = data_panel(page_records.records_of(store, specs))
    panels += [each for each in (loading_panel(study.stored_model, data), described) if each]
    panels.append(_provenance(study, data, names, failures))
    page = render_page(
        title=_title(study, record),
        lead=f"{study.lead}{f' Data: {record.name}.' if record else ''} {_scale(study, data, changed)}",
        panels=panels,
        footer=_footer(study, request, data, names, record),
    )
    shown = (*data.done, *(spec for spec in data.repeated if store.finished(spec.identity)))
    return page_file.with_runs(page, shown)


def _drawn(spec: PanelSpec, data: PageData) -> list[Panel]:
    """Panels of a specification, or a sentence in their place if a pack left out the arrays that they draw."""
    try:
        return list(spec.draw(data))
    except LeftOutError as error:
        note = f"Not drawn: {error} Train it in another store to draw it: the same command with another --out."
        return [Panel(spec.about[:1].upper() + spec.about[1:], (Text((note,)),))]


def _counted_claims(study: Study, data: PageData) -> tuple[str, ...]:
    """Sentence that counts the verdicts on the published claims, which are judged below."""
    return (f"{CLAIMS_TITLE}: {count_verdicts(judge_claims(study.claims, data.rows))}.",)


def _claims(study: Study, data: PageData, titles: Mapping[str, str]) -> Panel:
    """The published claims with their verdicts; each names its panel by the title that it has on the page."""
    shown = {name: titles.get(name, f"panel {name}, not on this page") for name in study.panels}
    claims = [dataclasses.replace(each, panel=shown.get(each.panel, each.panel)) for each in study.claims]
    return claims_table(claims, data.rows, title=CLAIMS_TITLE, caption=_by_paper(study))


def _by_paper(study: Study) -> str:
    """Sentence that names the sections of the claims table with the claims of a study."""
    sources = [claim.source for claim in study.claims]
    listed = [each for each in PUBLICATIONS if any(each.mark in source for source in sources)]
    if not listed:
        return ""
    return (
        "The file docs/claims.md in the source code of posenc lists all claims by paper, at every scale at which they "
        f"were measured. Its sections on these: {'; '.join(map(publication_heading, listed))}."
    )


def _footer(study: Study, request: Request, data: PageData, panels: Sequence[str], record: DatasetRecord | None) -> str:
    """The command of a page, where its numbers are, and the version that draws it."""
    source = [page_records.source_in_command(data.store, record)] if record else []
    words = ["posenc run", study.name, *source, *page_records.reading_flags(record)]
    words += ["--preset", request.preset, *changes.options(study.presets, request)]
    words += ["--data DIR"] if _read_real_data(data) else []
    words += ["--panels", *panels] if request.panels else []
    words += ["--conditions", *map(quote, request.conditions)] if request.conditions else []
    words += _variants_and_seeds(study, request, data)
    folder = page_records.path_in_command(data.store.root)
    words += ["--out", folder] if folder != DEFAULT_FOLDER else []
    return f"{' '.join(words)}. The store beside this page has every number; posenc results prints them. {_drawn_by()}"


def _variants_and_seeds(study: Study, request: Request, data: PageData) -> list[str]:
    """Flags for the variants and seeds that a page shows, where they are not those of its panels and preset."""
    plain = dataclasses.replace(request, schemes=None, seeds=None)
    usual = list(dict.fromkeys(label for labels in planning.needed(study, plain).values() for label in labels))
    named = {spec.variant for spec in data.specs} - {*study.baselines}
    shown = [*(label for label in usual if label in named), *sorted(named - {*usual})]
    seeds = sorted({spec.seed for spec in data.specs})
    words = ["--schemes", *map(quote, shown)] if shown and {*shown} != {*usual} - {*study.baselines} else []
    if seeds and seeds != sorted(planning.seeds_of(study, plain)):
        words += ["--seeds", *map(str, seeds)]
    return words


def _drawn_by() -> str:
    """The version that draws a page, which may be later than the versions of its runs."""
    commit, dirty = git_state(Path(__file__).parent)
    code = f" as of commit {commit[:7]}{', with uncommitted changes' if dirty else ''}" if commit else ""
    return f"Drawn by posenc {__version__}{code}, {now()[:10]}."


def _read_real_data(data: PageData) -> bool:
    """True if a run of the page was started with ``--data``, as its stored command says."""
    identities = dict.fromkeys(spec.identity for spec in data.done)
    return any("--data" in str(data.store.read(each).provenance.get("command")).split() for each in identities)


def display_label(spec: RunSpec) -> str:
    """Variant of a run, with its condition unless it is the main one.

    Args:
        spec: The run.

    Returns:
        Text such as "rope, decay".
    """
    return spec.variant if spec.condition == MAIN else f"{spec.variant}, {spec.condition}"


def _title(study: Study, record: DatasetRecord | None) -> str:
    """The question of the page, with the names of the user's data if the study puts them into it."""
    return study.question if record is None or study.own_question is None else study.own_question(record)


def _scale(study: Study, data: PageData, changed: Sequence[str]) -> str:
    """Sentences on the scale of the runs."""
    scale = run_scale.scale(study, data)
    sentences = [f"Scale: {scale}."] if scale else []
    sentences += [f"Changed from the preset: {', '.join(changed)}."] if changed else []
    return " ".join(sentences)


def _limits(study: Study, request: Request, changed: Sequence[str], own: bool) -> tuple[str, ...]:
    """Sentences on the limits of a preset's results. Those on built-in data are not true of a user's data."""
    of_data = () if own else study.limits.get(request.preset, ())
    preset = study.presets[request.preset]
    decided = (f"Decided here, because the document does not say it: {each}" for each in preset.decided)
    limits = (*of_data, *study.protocol_limits.get(request.preset, ()), *decided)
    if not changed:
        return limits
    return (
        f"Settings are changed: {', '.join(changed)}. Limits, predictions and claims on this page were written for the "
        f"preset {request.preset} without changes.",
        *limits,
    )


def _single_seeds(data: PageData) -> tuple[str, ...]:
    """Sentence on the variants that have a single seed."""
    seeds = Counter((spec.condition, spec.variant) for spec in data.done)
    alone = list(dict.fromkeys(condition for (condition, _), count in seeds.items() if count == 1))
    if not alone:
        return ()
    where = "" if len(data.conditions) == 1 else f" ({', '.join(alone)})"
    count = sum(count == 1 for count in seeds.values())
    return (
        f"{count} of {len(seeds)} variants{where} have one seed, so they have no interval and allow no conclusion. "
        "Run at least three seeds, for example --seeds 0 1 2.",
    )


def _calls(data: PageData) -> dict[tuple[str, str], Sequence[str]]:
    """Variant and condition to the calls of the encodings, from the run of the lowest seed, main first."""
    first = {(spec.variant, spec.condition): spec for spec in sorted(data.done, key=lambda spec: -spec.seed)}
    order = sorted(first, key=lambda labels: (labels[1] != MAIN, labels[1], labels[0]))
    return {labels: data.store.read(first[labels].identity).timing.get("calls", ()) for labels in order}


def _views(study: Study, data: PageData) -> dict[tuple[str, str], str]:
    """Variant and condition to the view of the positions that its encoding reads."""
    return {(spec.variant, spec.condition): view_in(spec.settings, study.views) for spec in data.done}


def _conditions(study: Study, data: PageData) -> Panel | None:
    """Table of the settings that each condition changes; None if no condition changes any."""
    conditions = [study.condition(label) for label in data.conditions]
    changes = [(each.title or each.label, each.changes_in(data)) for each in conditions]
    rows = tuple(
        (title, "; ".join(f"{name}: {value}" for name, value in changed.items()))
        for title, changed in changes
        if changed
    )
    if not rows:
        return None
    return Panel("Conditions", (Table("Settings that differ from the main condition", ("condition", "changes"), rows),))


def _variants_without_runs(study: Study, data: PageData, names: Sequence[str]) -> list[str]:
    """Sentence on the variants that the panels need and that have no runs."""
    absent = dict[str, list[str]]()
    for panel in (study.panels[name] for name in names):
        if panel.shows_condition is None:
            for condition, variants in panel.needs(data.request, data.preset).items():
                run = {*data.labels(condition), *absent.setdefault(condition, [])}
                absent[condition] += [variant for variant in variants if variant not in run]
    listed = [f"{condition}: {', '.join(variants)}" for condition, variants in absent.items() if variants]
    return [f"Variants of these panels without runs on this page. {'; '.join(listed)}."] if listed else []


def _provenance(study: Study, data: PageData, names: Sequence[str], failures: Mapping[str, str]) -> Panel:
    every = (*data.specs, *data.repeated)
    done = [identity for identity in dict.fromkeys(s.identity for s in every) if data.store.finished(identity)]
    stored = [data.store.read(identity) for identity in done]
    others = [f"{key} ({panel.shows})" for key, panel in study.panels.items() if key not in names]
    lacking = planning.without_weights(study, data.request, data.store, data.specs)
    not_run = ["Panels " + "; ".join(others) + "."] if others else []
    not_run += _variants_without_runs(study, data, names)
    if lacking:
        not_run.append(
            f"Measurements for the panels {', '.join(lacking)}: some runs came from packs, which hold no weights. "
            "Train them in another store to measure them."
        )
    return provenance_panel(
        [
            {**each.provenance, **each.timing, **each.spec.labels, "unit": each.name, "key": each.code}
            for each in stored
        ],
        planned=len({spec.identity for spec in every}),
        missing=[
            {"unit": f"{display_label(spec)}, seed {spec.seed}", "reason": failures[spec.identity]}
            for spec in every
            if spec.identity in failures
        ],
        not_run=tuple(not_run),
    )
