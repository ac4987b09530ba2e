"""The panels of the Latin-square study: published table or figure, needed runs and plot function of each."""

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


def _unique(*parts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(label for part in parts for label in part))


def _gap_closes(request: Request, preset: Preset) -> Needs:
    """Two variants in two conditions; no run at a preset without the second condition.

    Raises ValueError if the panel was asked for by name at such a preset.
    """
    if is_trained_at(GAP_CLOSES, request.preset):
        return dict.fromkeys((MAIN, GAP_CLOSES), SIGMA_GAP)
    if ALL in (request.panels or ()):
        return {}
    presets = [name for name in PRESETS if is_trained_at(GAP_CLOSES, name)]
    raise ValueError(
        f"the panel gap-closes has no condition at the preset {request.preset}. Use --preset {' or '.join(presets)}, "
        "or leave the panel out."
    )


def _attention(request: Request, preset: Preset) -> Needs:
    return {MAIN: _unique(_sigmas(preset), ACCURACY)}


def _positions(request: Request, preset: Preset) -> Needs:
    return {MAIN: _unique(("2d-fixed", "1d-fixed"), _sigmas(preset))}


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
        about="accuracy by encoding, class of puzzle and epoch",
        shows="Table 1, Fig. 2B, Fig. A9A",
        needs=lambda request, preset: {MAIN: ACCURACY},
        draw=plots.accuracy,
    ),
    "gap-closes": PanelSpec(
        about="a condition in which the gap between small and large initial tables closes",
        shows="no figure of the paper; a counterexample to it",
        needs=_gap_closes,
        draw=plots.gap_closes,
    ),
    "sigma": PanelSpec(
        about="accuracy by standard deviation of the initial table",
        shows="Table A2, Fig. 2C",
        needs=lambda request, preset: {MAIN: _sigmas(preset)},
        draw=sigma_plots.sigma,
    ),
    "attention": PanelSpec(
        about="similarity of attention maps to those of 2d-fixed, accuracy by similarity, and untrained models",
        shows="Table A3, Figs. 3A-C, A8, A9B-D",
        needs=_attention,
        draw=attention,
        measured=_measured(_attention),
    ),
    "positions": PanelSpec(
        about="distance of learned positions from the true grid, before and after training, and its controls",
        shows="Figs. 1F-H, 3D-F",
        needs=_positions,
        draw=position_plots.positions,
        measured=_measured(_positions),
    ),
    "noise": PanelSpec(
        about="accuracy with noise on the token embeddings",
        shows="Fig. A10",
        needs=_noise,
        draw=sigma_plots.noise,
        measured=_measured(_noise),
    ),
    "optimisers": PanelSpec(
        about="accuracy with Adam and with plain SGD on small initial tables",
        shows="Table A4, Fig. A6",
        needs=lambda request, preset: dict.fromkeys((MAIN, SGD), tuple(map(learned, SMALL_SIGMAS))),
        draw=sigma_plots.optimizers,
    ),
    "weight-decay": PanelSpec(
        about="accuracy of every encoding with and without a weight decay of 0.1",
        shows="Tables A5, A6, Fig. A7",
        needs=lambda request, preset: dict.fromkeys((MAIN, WEIGHT_DECAY), _unique(ACCURACY, _sigmas(preset))),
        draw=sigma_plots.weight_decay,
    ),
    "heads": PanelSpec(
        about="accuracy with one, two and four heads",
        shows="Fig. A14",
        needs=lambda request, preset: dict.fromkeys((MAIN, TWO_HEADS, FOUR_HEADS), HEADS),
        draw=plots.heads,
    ),
    "as-run": PanelSpec(
        about="accuracy of encodings as released and as published",
        shows="Table 1, in which the fixed, relative and causal encodings are as released",
        needs=lambda request, preset: {MAIN: _unique(AS_RELEASED, PUBLISHED_OF.values())},
        draw=plots.as_released,
    ),
}
