"""The rows of the spherical study: what stands beside LeNet's features, what multiplies its pixels, the controls."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

from posenc.models.lenet import LeNetConfig
from posenc.models.stage import Options
from posenc.models.vit import vit
from posenc.specification import Specification, parse, unknown
from posenc.studies.classifying import ConvolutionRow, TransformerRow
from posenc.studies.picture_sets import Pictures

HEAD, CODE_HEAD = "hidden=(128,)", "hidden=(256, 64)"
Placement = Literal["none", "features", "constant", "pixels", "mask"]
SCALES = (0.0, 0.1, 10.0)
"""Times the first weights of the readout's last layer, beside 1."""
PADDED = 2
PATCH = 4
SLOW = 3e-4
"""The rate at which the author trained the networks with rows on CIFAR-10, and those without at 1e-3."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kind:
    """What makes a row: where an encoding enters, which one, the first layer's padding, a rate of its own."""

    about: str
    placement: Placement = "none"
    scheme: str = ""
    padded: bool = False
    lr: float | None = None
    scale: float = 1.0


def _encodings() -> dict[str, tuple[str, str]]:
    """Label -> (scheme with its head, what it is)."""
    return {
        "note": (f"SCPE({HEAD})", "the note's sphere, 3 -> 128 -> 1"),
        "code": (f"SCPE(variant='code', {CODE_HEAD})", "the released code's sphere, 3 -> 256 -> 64 -> 1"),
        "shear": (f"SCShear({HEAD})", "mended: columns shift with rows"),
        "torus": (f"SCTorus({HEAD})", "mended: three circles, translation invariant"),
    }


SPHERES = {"note": "SCPE", "code": "SCPE(variant='code')", "shear": "SCShear", "torus": "SCTorus"}
"""The encodings without their heads: the vectors themselves."""

KINDS: Mapping[str, Kind] = {
    "plain": Kind(about="LeNet alone"),
    "plain-padded": Kind(about="LeNet alone, its first layer padded by 2", padded=True),
    "as-published": Kind(
        about="rows beside the features as released for Fashion-MNIST: the code's sphere, a padded first layer",
        placement="features", scheme=_encodings()["code"][0], padded=True,
    ),
    **{label: Kind(about=f"rows beside the features: {about}", placement="features", scheme=scheme)
       for label, (scheme, about) in _encodings().items()},
    "constant": Kind(about="a trained vector beside the features, one number a pixel", placement="constant"),
    "constant-padded": Kind(about="the same, its first layer padded by 2", placement="constant", padded=True),
    **{f"code x {scale:g}": Kind(about=f"code, its head's last layer {scale:g} times as large at first",
                                 placement="features", scheme=_encodings()["code"][0], scale=scale)
       for scale in SCALES},
    **{f"{label} times": Kind(about=f"pixels times rows: {about}", placement="pixels", scheme=scheme)
       for label, (scheme, about) in _encodings().items()},
    "mask": Kind(about="pixels times a trained number each", placement="mask"),
    "plain-slow": Kind(about="LeNet alone at a rate of 3e-4", lr=SLOW),
    "code-slow": Kind(about="rows as released for CIFAR-10: the code's sphere at a rate of 3e-4",
                      placement="features", scheme=_encodings()["code"][0], lr=SLOW),
}  # fmt: skip
BESIDE = ("plain", "plain-padded", "as-published", "note", "code", "shear", "torus", "constant", "constant-padded")
UNPADDED = ("plain", "note", "code", "shear", "torus", "constant")
"""Beside the features of 32 x 32 pixels, where neither of the author's networks pads."""
OVER = ("plain", *(f"{label} times" for label in _encodings()), "mask")
STARTS = ("plain", "code", *(f"code x {scale:g}" for scale in SCALES))
RATES = ("plain", "plain-slow", "code", "code-slow")

TOKENS: Mapping[str, tuple[str, str, bool]] = {
    "sphere": ("SCPE", "the note's sphere on rows and columns, 3 -> 128 -> dim", True),
    "sphere, in line": ("SCPE", "the same, all patches in one row: a quarter circle, 3 -> 128 -> dim", True),
    "sinusoid": ("Sinusoid", "the sinusoid on rows and columns", False),
    "sinusoid, in line": ("Sinusoid", "the sinusoid on the number of a patch", False),
    "nope": ("NoPE", "nothing", False),
}
"""Label -> scheme, what it is, and whether its rows pass a network of 128 on their way to the tokens."""


def convolution(label: str, pictures: Pictures) -> tuple[ConvolutionRow, float | None]:
    """A row for pictures and the rate that is its own, if any. Raises ValueError for a label that nobody has."""
    kind = kind_of(label)
    height, width = pictures.shape[1:]
    config = LeNetConfig(
        image=(height, width),
        channels=pictures.shape[0],
        classes=pictures.classes,
        padding=PADDED if kind.padded else 0,
        placement=kind.placement,
        width=height * width if kind.placement == "constant" else 0,
    )
    scheme = parse(kind.scheme) if kind.scheme else None
    return ConvolutionRow(config=config, scheme=scheme, scale=kind.scale), kind.lr


def kind_of(label: str) -> Kind:
    """What makes a row; of an encoding by name, beside the features. Raises ValueError for a label nobody has."""
    if label in KINDS:
        return KINDS[label]
    try:
        named = parse(label)
    except ValueError:
        raise ValueError(
            f"{unknown('row', label, KINDS)} The rows are {', '.join(KINDS)}; or name a scheme that embeds, as "
            "SCTorus(hidden=(64,))."
        ) from None
    return Kind(about=f"{named.scheme} beside the features", placement="features", scheme=label)


def belongs(label: str) -> bool:
    """Whether LeNets have a row of this label."""
    try:
        kind_of(label)
    except ValueError:
        return False
    return True


def transformer(label: str, pictures: Pictures) -> TransformerRow:
    """A small vision transformer with this row's encoding. Raises ValueError for a label that nobody has."""
    if label not in TOKENS:
        raise ValueError(f"{unknown('row of the transformer', label, TOKENS)} The rows are {', '.join(TOKENS)}.")
    scheme, _, projected = TOKENS[label]
    in_line = label.endswith("in line")
    height, width = pictures.shape[1:]
    tokens = (height // PATCH) * (width // PATCH)
    options = {"n": tokens} if scheme == "SCPE" and in_line else {}
    if scheme == "Sinusoid":
        options = {"axes": 1 if in_line else 2}
    config = vit(
        "quick",
        classes=pictures.classes,
        image=(height, width),
        channels=pictures.shape[0],
        read_out="mean",
        options=Options(project=(128,) if projected else None, view="line" if in_line else "grid"),
    )
    return TransformerRow(config=config, scheme=Specification(scheme, options))
