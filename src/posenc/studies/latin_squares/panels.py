"""The panels of the Latin-square study by name: which table or figure each one is, and which runs it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from posenc.specification import unknown
from posenc.studies.latin_squares.presets import FOUR_HEADS, GAP_CLOSES, SGD, TWO_HEADS, WEIGHT_DECAY, Preset
from posenc.studies.latin_squares.rows import AS_RUN, TABLE_1, learned

Needs = dict[str, tuple[str, ...]]  # setting -> labels of rows

SMALL_SIGMAS = (0.01, 0.05, 0.1, 0.2)
NOISE_SIGMAS = (0.1, 0.2, 1.0, 2.0)
HEADS_ROWS = ("2d-fixed", "1d-fixed", "rope", "relative", "random", "learned-0.2")
CLEAN_OF = {label: label.removesuffix("-literal") for label in AS_RUN}


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A panel before it is drawn. measured: it reads measurements of trained models, not only their accuracies."""

    about: str
    shows: str
    needs: Callable[[Preset], Needs]
    measured: bool = False


def _sigmas(preset: Preset) -> tuple[str, ...]:
    return tuple(learned(sigma) for sigma in preset.sigmas)


def _table_1(preset: Preset) -> tuple[str, ...]:
    return (*TABLE_1, *(learned(sigma) for sigma in (0.1, 0.2, 1.0, 2.0)))


def _joined(*parts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(label for part in parts for label in part))


PANELS: dict[str, Plan] = {
    "accuracy": Plan(
        about="which encodings generalise, by class of puzzle and by epoch",
        shows="Table 1, Fig. 2B, Fig. A9A",
        needs=lambda preset: {"main": _table_1(preset)},
    ),
    "gap-closes": Plan(
        about="a setting in which the gap between small and large initial tables closes",
        shows="none of the paper's: its counter-example",
        needs=lambda preset: dict.fromkeys(("main", GAP_CLOSES), ("learned-0.2", "learned-2")),
    ),
    "sigma": Plan(
        about="accuracy against the standard deviation of the initial table",
        shows="Table A2, Fig. 2C",
        needs=lambda preset: {"main": _sigmas(preset)},
    ),
    "attention": Plan(
        about="agreement of attention maps with those of 2d-fixed, against accuracy and against an untrained model",
        shows="Table A3, Figs. 3A-C, A8, A9B-D",
        needs=lambda preset: {"main": _joined(_sigmas(preset), _table_1(preset))},
        measured=True,
    ),
    "positions": Plan(
        about="learned positions beside the true grid, before and after training; their distance and its controls",
        shows="Figs. 1F-H, 3D-F",
        needs=lambda preset: {"main": _joined(("2d-fixed", "1d-fixed"), _sigmas(preset))},
        measured=True,
    ),
    "noise": Plan(
        about="accuracy when noise is added to the token embeddings",
        shows="Fig. A10",
        needs=lambda preset: {"main": ("2d-fixed", *(learned(sigma) for sigma in NOISE_SIGMAS))},
        measured=True,
    ),
    "optimisers": Plan(
        about="Adam and plain SGD on very small initial tables",
        shows="Table A4, Fig. A6",
        needs=lambda preset: {name: tuple(map(learned, SMALL_SIGMAS)) for name in ("main", SGD)},
    ),
    "weight-decay": Plan(
        about="every encoding with and without a weight decay of 0.1",
        shows="Tables A5, A6, Fig. A7",
        needs=lambda preset: {name: _joined(_table_1(preset), _sigmas(preset)) for name in ("main", WEIGHT_DECAY)},
    ),
    "heads": Plan(
        about="one, two and four heads",
        shows="Fig. A14",
        needs=lambda preset: dict.fromkeys(("main", TWO_HEADS, FOUR_HEADS), HEADS_ROWS),
    ),
    "as-run": Plan(
        about="what the authors' code runs beside what their text says",
        shows="Table 1, whose fixed, relative and causal rows are the literal ones",
        needs=lambda preset: {"main": _joined(AS_RUN, CLEAN_OF.values())},
    ),
}
ALL = "all"


def chosen(asked: Sequence[str] | None, preset: Preset) -> tuple[str, ...]:
    """The panels of a request in the order of the page; ``all`` is every panel that the preset has settings for.

    Raises ValueError with the nearest name for an unknown one, and for one that this preset cannot fill.
    """
    if not asked:
        return preset.panels
    possible = [name for name, plan in PANELS.items() if plan.needs(preset).keys() <= {"main", *preset.changes}]
    if ALL in asked:
        return tuple(possible)
    for name in asked:
        if name not in PANELS:
            raise ValueError(f"{unknown('panel', name, [*PANELS, ALL])} The panels are {', '.join([*PANELS, ALL])}.")
        if name not in possible:
            raise ValueError(
                f"the panel {name} has no setting at this preset. Panels that have: {', '.join(possible)}."
            )
    return tuple(name for name in possible if name in asked)


def needed(names: Sequence[str], preset: Preset) -> Needs:
    """Every row that these panels need, by setting, each once."""
    found: Needs = {}
    for name in names:
        for setting, labels in PANELS[name].needs(preset).items():
            found[setting] = _joined(found.get(setting, ()), labels)
    return found
