"""The rows of the Latin-square study: a scheme on a view of the positions, and what it changes in the model."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from posenc import specification


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


TABLE_1 = tuple(ROWS)
"""The encodings of the paper's Table 1, as their papers have them, without the learned ones."""


def learned(sigma: float) -> str:
    """The label of a learned table that starts with that standard deviation."""
    return f"learned-{sigma:g}"


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
            names = [*known, "learned-0.2", *specification.catalogue()]
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
