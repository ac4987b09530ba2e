"""The panels of the Latin-square study: which table or figure each is, which runs it needs, and how it is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from posenc.workbench.runs import RunSpec
from posenc.workbench.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.latin_squares import measure, plots, position_plots, sigma_plots
from posenc.workbench.studies.latin_squares.attention_plots import attention
from posenc.workbench.studies.latin_squares.conditions import (
    FOUR_HEADS,
    GAP_CLOSES,
    SGD,
    TWO_HEADS,
    WEIGHT_DECAY,
    is_trained_at,
)
from posenc.workbench.studies.latin_squares.presets import PRESETS, Preset
from posenc.workbench.studies.latin_squares.variants import (
    ACCURACY,
    AS_RELEASED,
    HEADS,
    NOISE,
    PUBLISHED_OF,
    SIGMA_GAP,
    SMALL_SIGMAS,
    learned,
)
from posenc.workbench.studies.shared.declarations import MAIN, Needs, PanelSpec
from posenc.workbench.studies.shared.planning import ALL

NeedsOf = Callable[[Request, Preset], Needs]


def _sigmas(preset: Preset) -> tuple[str, ...]:
    return tuple(map(learned, preset.sigmas))


def _each_once(*parts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(label for part in parts for label in part))


def _gap_closes(request: Request, preset: Preset) -> Needs:
    """Two variants in two conditions; nothing at a preset without the second one, unless it is asked for by name."""
    if is_trained_at(GAP_CLOSES, request.preset):
        return dict.fromkeys((MAIN, GAP_CLOSES), SIGMA_GAP)
    if ALL in (request.panels or ()):
        return {}
    presets = [name for name in PRESETS if is_trained_at(GAP_CLOSES, name)]
    raise ValueError(
        f"the panel gap-closes has no condition at the preset {request.preset}. Draw it at --preset "
        f"{' or '.join(presets)}, or leave it out."
    )


def _attention(request: Request, preset: Preset) -> Needs:
    return {MAIN: _each_once(_sigmas(preset), ACCURACY)}


def _positions(request: Request, preset: Preset) -> Needs:
    return {MAIN: _each_once(("2d-fixed", "1d-fixed"), _sigmas(preset))}


def _noise(request: Request, preset: Preset) -> Needs:
    return {MAIN: NOISE}


def _measured(needs: NeedsOf) -> Callable[[Request, Preset, Store, Sequence[RunSpec]], Sequence[RunSpec]]:
    """The runs that measure the variants of a panel, and those that were asked for by name."""

    def measured(request: Request, preset: Preset, store: Store, specs: Sequence[RunSpec]) -> Sequence[RunSpec]:
        labels = {*needs(request, preset)[MAIN], *(request.schemes or ())}
        return [spec for spec in measure.measurements(specs, store) if spec.variant in labels]

    return measured


PANELS: Mapping[str, PanelSpec] = {
    "accuracy": PanelSpec(
        about="which encodings generalize, by class of puzzle and by epoch",
        shows="Table 1, Fig. 2B, Fig. A9A",
        needs=lambda request, preset: {MAIN: ACCURACY},
        draw=plots.accuracy,
    ),
    "gap-closes": PanelSpec(
        about="a condition in which the gap between small and large initial tables closes",
        shows="none of the paper's: its counter-example",
        needs=_gap_closes,
        draw=plots.gap_closes,
    ),
    "sigma": PanelSpec(
        about="accuracy against the standard deviation of the initial table",
        shows="Table A2, Fig. 2C",
        needs=lambda request, preset: {MAIN: _sigmas(preset)},
        draw=sigma_plots.sigma,
    ),
    "attention": PanelSpec(
        about="agreement of attention maps with those of 2d-fixed, against accuracy and against an untrained model",
        shows="Table A3, Figs. 3A-C, A8, A9B-D",
        needs=_attention,
        draw=attention,
        measured=_measured(_attention),
    ),
    "positions": PanelSpec(
        about="learned positions against the true grid, before and after training; their distance and its controls",
        shows="Figs. 1F-H, 3D-F",
        needs=_positions,
        draw=position_plots.positions,
        measured=_measured(_positions),
    ),
    "noise": PanelSpec(
        about="accuracy when noise is added to the token embeddings",
        shows="Fig. A10",
        needs=_noise,
        draw=sigma_plots.noise,
        measured=_measured(_noise),
    ),
    "optimisers": PanelSpec(
        about="Adam and plain SGD on very small initial tables",
        shows="Table A4, Fig. A6",
        needs=lambda request, preset: dict.fromkeys((MAIN, SGD), tuple(map(learned, SMALL_SIGMAS))),
        draw=sigma_plots.optimizers,
    ),
    "weight-decay": PanelSpec(
        about="every encoding with and without a weight decay of 0.1",
        shows="Tables A5, A6, Fig. A7",
        needs=lambda request, preset: dict.fromkeys((MAIN, WEIGHT_DECAY), _each_once(ACCURACY, _sigmas(preset))),
        draw=sigma_plots.weight_decay,
    ),
    "heads": PanelSpec(
        about="one, two and four heads",
        shows="Fig. A14",
        needs=lambda request, preset: dict.fromkeys((MAIN, TWO_HEADS, FOUR_HEADS), HEADS),
        draw=plots.heads,
    ),
    "as-run": PanelSpec(
        about="encodings as the authors' code runs them, beside the same as their text describes them",
        shows="Table 1, whose fixed, relative and causal encodings are those as released",
        needs=lambda request, preset: {MAIN: _each_once(AS_RELEASED, PUBLISHED_OF.values())},
        draw=plots.as_released,
    ),
}
