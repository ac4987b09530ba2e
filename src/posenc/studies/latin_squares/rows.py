"""What the Latin-square study trains: its rows (a scheme on a view of the positions) and its settings."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from posenc import specification
from posenc.models.encoder import EncoderConfig
from posenc.training.loop import TrainingConfig


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the study: a scheme on a view of the positions, and what it changes in the model."""

    scheme: str
    options: dict[str, Any] = {}
    view: Literal["index", "grid"] = "index"
    model: dict[str, Any] = {}
    training: dict[str, Any] = {}


ROWS: dict[str, Row] = {
    "2d-fixed": Row(scheme="Sinusoid", options={"axes": 2}, view="grid"),
    "1d-fixed": Row(scheme="Sinusoid"),
    # bias-free projections, as the authors have them for these two
    "rope": Row(scheme="RoPE", model={"projection_bias": False}),
    "causal-nope": Row(scheme="CausalNoPE", model={"projection_bias": False}),
    "relative": Row(scheme="Shaw"),
    "random": Row(scheme="Random"),
    "nope": Row(scheme="NoPE"),
}
"""The study's own names; ``learned-SIGMA`` and any text such as ``Shaw(values=False)`` name further rows."""

AS_RUN: dict[str, Row] = {
    # never evaluated in eval mode, with the 0.1 dropout of the sinusoid's constructor
    "2d-fixed-literal": Row(
        scheme="Sinusoid",
        options={"axes": 2},
        view="grid",
        model={"encoding_dropout": 0.1},
        training={"evaluate_in_train_mode": True},
    ),
    "1d-fixed-literal": Row(
        scheme="Sinusoid", model={"encoding_dropout": 0.1}, training={"evaluate_in_train_mode": True}
    ),
    "relative-literal": Row(scheme="Shaw", options={"literal": True}, model={"output_projection": False}),
    "causal-nope-literal": Row(scheme="CausalNoPE", options={"literal": True}, model={"projection_bias": False}),
}
"""What the authors' code runs under the same names, where it differs from their text."""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One way of training every row: data, model, training."""

    data: dict[str, Any]
    train_size: int | None = None
    model: EncoderConfig
    training: TrainingConfig


def _quick() -> Setting:
    return Setting(
        data={"rule": "entailment", "jaccard": "clue-pairs", "train": 8000, "iid": 1000, "ood": 300, "seed": 1},
        train_size=3000,
        model=EncoderConfig(
            channels=6, classes=4, dim=32, depth=2, hidden=128, activation="relu", read_out="probe", token_std=0.25
        ),
        training=TrainingConfig(epochs=60, batch=64, lr=1e-3, optimiser="adam", warmup_steps=50, evaluate_every=10),
    )


def _paper(epochs: int, every: int) -> Setting:
    return Setting(
        data={"authors": True},
        model=EncoderConfig(
            channels=5, classes=4, dim=160, depth=4, hidden=640, second_activation=True, read_out="last"
        ),
        training=TrainingConfig(epochs=epochs, batch=128, lr=1e-4, evaluate_every=every),
    )


def _gap_closes() -> Setting:
    """More puzzles, a larger rate, pre-norm, tokens as large as the encoding, added once: learned-2 catches up."""
    quick = _quick()
    return msgspec.structs.replace(
        quick,
        train_size=8000,
        model=msgspec.structs.replace(quick.model, norm="pre", token_std=1.0, placement="input"),
        training=msgspec.structs.replace(quick.training, epochs=20, lr=3e-3, evaluate_every=5),
    )


QUICK_ROWS = (
    "2d-fixed", "1d-fixed", "rope", "relative", "random", "nope", "causal-nope",
    "learned-0.1", "learned-0.2", "learned-1", "learned-2",
)  # fmt: skip
QUICK_SEEDS = (0, 1, 2)
# the authors' own fifteen, in their order
SEEDS = (2235, 6312, 6068, 9742, 8880, 2197, 669, 6256, 3309, 2541, 8643, 7785, 195, 6914, 29)


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    """Which rows and seeds, in the main setting and in a second one beside it."""

    about: str
    main: Setting
    rows: tuple[str, ...] = QUICK_ROWS
    seeds: tuple[int, ...] = QUICK_SEEDS
    other: dict[str, Setting] = {}
    other_rows: tuple[str, ...] = ()
    asks: bool = True


PRESETS: dict[str, Preset] = {
    "quick": Preset(
        about="a small model on 3,000 puzzles, 60 epochs, 3 seeds: about three minutes on two cores",
        main=_quick(),
        other={"gap closes": _gap_closes()},
        other_rows=("learned-0.2", "learned-2"),
        asks=False,
    ),
    "standard": Preset(
        about="the paper's model on its 8,100 puzzles, 200 epochs, 3 seeds: hours on two cores",
        main=_paper(200, 20),
        rows=(*QUICK_ROWS, *AS_RUN),
        seeds=SEEDS[:3],
    ),
    "paper": Preset(
        about="the paper's model on its 8,100 puzzles, 600 epochs, 15 seeds: days on two cores",
        main=_paper(600, 20),
        rows=(*QUICK_ROWS, *AS_RUN),
        seeds=SEEDS,
    ),
}


def row(label: str) -> Row:
    """The row of a label: one of the study's names, ``learned-SIGMA``, or any scheme of the catalogue as text.

    Raises ValueError with the nearest name for one that nobody has.
    """
    known = {**ROWS, **AS_RUN}
    if label in known:
        return known[label]
    plain = {name.replace("-", ""): name for name in ROWS}
    if label.lower().replace("-", "").replace("_", "") in plain:  # RoPE is the row rope, not another model
        return known[plain[label.lower().replace("-", "").replace("_", "")]]
    if label.startswith("learned-"):
        return Row(scheme="Learned", options={"sigma": _sigma(label)})
    try:
        found = specification.parse(label)
    except ValueError as error:
        if "there is no encoding" in str(error):
            names = [*known, *QUICK_ROWS, *(name for name in specification.catalogue())]
            raise ValueError(specification.unknown("encoding", label, names)) from None
        raise
    return Row(scheme=found.scheme, options=found.options)


def _sigma(label: str) -> float:
    text = label.removeprefix("learned-")
    try:
        return float(text)
    except ValueError:
        raise ValueError(
            f"{label!r} should name a learned table by its standard deviation, as learned-0.2; {text!r} is no number."
        ) from None
