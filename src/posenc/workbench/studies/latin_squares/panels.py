"""The panels of the Latin-square study: published table or figure, needed runs and plot function of each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from posenc.workbench.report.page import Panel
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.latin_squares import (
    further_measures,
    plots,
    position_plots,
    puzzle_plots,
    sigma_plots,
    stored_measurements,
)
from posenc.workbench.studies.latin_squares.attention_plots import attention
from posenc.workbench.studies.latin_squares.conditions import (
    FOUR_HEADS,
    GAP_CLOSES,
    SGD,
    TWO_HEADS,
    WEIGHT_DECAY,
)
from posenc.workbench.studies.latin_squares.presets import Preset
from posenc.workbench.studies.latin_squares.variants import (
    ACCURACY,
    AS_RELEASED,
    HEADS,
    PUBLISHED_OF,
    SIGMA_GAP,
    SMALL_SIGMAS,
    learned,
    variant,
)
from posenc.workbench.studies.shared.declarations import MAIN, Needs, PanelSpec
from posenc.workbench.studies.shared.page_data import PageData

NeedsOf = Callable[[Request, Preset], Needs]
Measurements = Callable[[Sequence[RunSpec], Store], Sequence[RunSpec]]
"""Function that plans the measurements of finished runs."""


def _sigmas(preset: Preset) -> tuple[str, ...]:
    return tuple(map(learned, preset.sigmas))


def _unique(*parts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(label for part in parts for label in part))


def _attention(request: Request, preset: Preset) -> Needs:
    return {MAIN: _unique(_sigmas(preset), ACCURACY)}


def _positions(request: Request, preset: Preset) -> Needs:
    return {MAIN: _unique(("2d-fixed", "1d-fixed"), _sigmas(preset))}


def _noise(request: Request, preset: Preset) -> Needs:
    return {MAIN: ACCURACY}


def _nothing(request: Request, preset: Preset) -> Needs:
    return {}


def _varied_by_variants(needs: NeedsOf) -> Callable[[Request, Preset], Collection[str]]:
    """Dotted paths of the settings that variants of a panel fix, such as the projections without a bias of rope."""

    def varies(request: Request, preset: Preset) -> Collection[str]:
        chosen = [variant(label) for labels in needs(request, preset).values() for label in labels]
        return [
            f"main.{part}.{name}"
            for each in chosen
            for part, values in (("model", each.model), ("training", each.training))
            for name in values
        ]

    return varies


def _panel(
    about: str,
    shows: str,
    needs: NeedsOf,
    draw: Callable[[PageData], list[Panel]],
    measures: Sequence[Measurements] = (),
) -> PanelSpec:
    varies = _varied_by_variants(needs)
    measured = _measured(needs, measures)
    return PanelSpec(about=about, shows=shows, needs=needs, draw=draw, varies=varies, measured=measured)


def _measured(
    needs: NeedsOf, measures: Sequence[Measurements]
) -> Callable[[Request, Preset, Store, Sequence[RunSpec]], Sequence[RunSpec]]:
    """The runs that measure the variants of a panel, and those that were asked for by name."""

    def measured(request: Request, preset: Preset, store: Store, specs: Sequence[RunSpec]) -> Sequence[RunSpec]:
        labels = {*needs(request, preset).get(MAIN, ()), *(request.schemes or ())}
        return [spec for plan in measures for spec in plan(specs, store) if spec.variant in labels]

    return measured


PANELS: Mapping[str, PanelSpec] = {
    "puzzles": _panel(
        about="a puzzle of each class with its solution, and the square as a sequence; no run",
        shows="Fig. 1A-E",
        needs=_nothing,
        draw=puzzle_plots.puzzles,
    ),
    "accuracy": _panel(
        about="accuracy by encoding, class of puzzle and epoch",
        shows="Table 1, Fig. 2B, Fig. A9A",
        needs=lambda request, preset: {MAIN: ACCURACY},
        draw=plots.accuracy,
    ),
    "gap-closes": _panel(
        about="a condition in which the gap between small and large initial tables closes, at quick",
        shows="no figure of the paper; a counterexample to it",
        needs=lambda request, preset: dict.fromkeys((MAIN, GAP_CLOSES), SIGMA_GAP),
        draw=plots.gap_closes,
    ),
    "sigma": _panel(
        about="accuracy by standard deviation of the initial table",
        shows="Table A2, Fig. 2C",
        needs=lambda request, preset: {MAIN: _sigmas(preset)},
        draw=sigma_plots.sigma,
    ),
    "attention": _panel(
        about="similarity of attention maps to those of 2d-fixed, accuracy by similarity, and untrained models",
        shows="Table A3, Figs. 3A-C, A8, A9B-D",
        needs=_attention,
        draw=attention,
        measures=(stored_measurements.measurements, further_measures.table_measurements),
    ),
    "positions": _panel(
        about="distance of learned positions from the true grid, before and after training, and its controls",
        shows="Figs. 1F-H, 3D-F",
        needs=_positions,
        draw=position_plots.positions,
        measures=(stored_measurements.measurements, further_measures.table_measurements),
    ),
    "noise": _panel(
        about="accuracy with noise on the token embeddings",
        shows="Fig. A10",
        needs=_noise,
        draw=sigma_plots.noise,
        measures=(stored_measurements.measurements, further_measures.noise_measurements),
    ),
    "optimizers": _panel(
        about="accuracy with Adam and with plain SGD on small initial tables",
        shows="Table A4, Fig. A6",
        needs=lambda request, preset: dict.fromkeys((MAIN, SGD), tuple(map(learned, SMALL_SIGMAS))),
        draw=sigma_plots.optimizers,
    ),
    "weight-decay": _panel(
        about="accuracy of every encoding with and without a weight decay of 0.1",
        shows="Tables A5, A6, Fig. A7",
        needs=lambda request, preset: dict.fromkeys((MAIN, WEIGHT_DECAY), _unique(ACCURACY, _sigmas(preset))),
        draw=sigma_plots.weight_decay,
    ),
    "heads": _panel(
        about="accuracy with one, two and four heads",
        shows="Fig. A14",
        needs=lambda request, preset: dict.fromkeys((MAIN, TWO_HEADS, FOUR_HEADS), HEADS),
        draw=plots.heads,
    ),
    "heads-sigma": _panel(
        about="accuracy by standard deviation of the initial table, with one, two and four heads",
        shows="Fig. A14C, G",
        needs=lambda request, preset: dict.fromkeys((MAIN, TWO_HEADS, FOUR_HEADS), _sigmas(preset)),
        draw=sigma_plots.heads_sigma,
    ),
    "as-released": _panel(
        about="accuracy of encodings as released and as published",
        shows="Table 1, in which the fixed, relative and causal encodings are as released",
        needs=lambda request, preset: {MAIN: _unique(AS_RELEASED, PUBLISHED_OF.values())},
        draw=plots.as_released,
    ),
}
