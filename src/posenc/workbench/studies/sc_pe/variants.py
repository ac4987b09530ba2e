"""Variants of the spherical study: encodings at several places of a LeNet, and controls without an encoding."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from posenc.lookup.scheme_reference import split_view
from posenc.lookup.scheme_text import Specification, parse, parse_variant, unknown
from posenc.models.lenet import LeNetConfig, Placement
from posenc.models.vision_stage import Options
from posenc.models.vit import vit
from posenc.workbench.studies.shared import patch_views
from posenc.workbench.studies.shared.classification import LeNetSpec, TransformerSpec
from posenc.workbench.studies.shared.image_data import ImageRecord

READOUT, CODE_READOUT = "hidden=(128,)", "hidden=(256, 64)"
SCALES = (0.0, 0.1, 10.0)
"""Factors on the initial weights of the readout's last layer, in addition to 1."""
WIDTH = 4
"""Channels of a scheme that is concatenated by name, where it can have any number."""
PADDING = 2
PATCH = 4
SLOW_RATE = 3e-4
"""Learning rate of the released code on CIFAR-10 for networks with the encoding; 0.001 for those without."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LeNetVariant:
    """A LeNet and its encoding.

    Attributes:
        about: Description.
        placement: Place at which the encoding enters.
        scheme: The scheme as text.
        padded: True if the first convolution is padded.
        lr: Learning rate; None for that of the preset.
        scale: Factor on the initial weights of the readout's last layer.
        view: View of the pixels that a label names; "" for none.
    """

    about: str
    placement: Placement = "none"
    scheme: str = ""
    padded: bool = False
    lr: float | None = None
    scale: float = 1.0
    view: str = ""


class Sphere(NamedTuple):
    """A spherical encoding with its readout to one value per pixel.

    Attributes:
        scheme: The scheme with the readout, as text.
        bare: The scheme without the readout, as text.
        about: Description.
    """

    scheme: str
    bare: str
    about: str


SPHERES: Mapping[str, Sphere] = {
    "note": Sphere(f"SCPE({READOUT})", "SCPE", "spherical encoding of the note, readout 3 -> 128 -> 1"),
    "code": Sphere(
        f"SCPE(variant='code', {CODE_READOUT})",
        "SCPE(variant='code')",
        "spherical encoding of the released code, readout 3 -> 256 -> 64 -> 1",
    ),
    "shear": Sphere(f"SCShear({READOUT})", "SCShear", "corrected: columns shift with rows"),
    "torus": Sphere(f"SCTorus({READOUT})", "SCTorus", "corrected: three circles, translation invariant"),
}
CODE = SPHERES["code"].scheme

VARIANTS: Mapping[str, LeNetVariant] = {
    "plain": LeNetVariant(about="LeNet without an encoding"),
    "plain-padded": LeNetVariant(about="LeNet without an encoding, first convolution padded by 2", padded=True),
    "as-published": LeNetVariant(
        about="as published for Fashion-MNIST: code concatenated with the features, first convolution padded by 2",
        placement="features", scheme=CODE, padded=True,
    ),
    "as-released": LeNetVariant(
        about="as released for Fashion-MNIST: as-published, without the ReLU after the 64 units of the readout",
        placement="features", scheme=f"SCPE(variant='code', {CODE_READOUT}, relu=(True, False))", padded=True,
    ),
    "note-linear": LeNetVariant(
        about="concatenated with the features: note, readout 3 -> 128 -> 1 without a ReLU, as the note's text has it",
        placement="features", scheme=f"SCPE({READOUT}, relu=False)",
    ),
    **{label: LeNetVariant(about=f"concatenated with the features: {sphere.about}", placement="features",
                           scheme=sphere.scheme)
       for label, sphere in SPHERES.items()},
    "constant": LeNetVariant(about="trained vector concatenated with the features, one value per pixel",
                             placement="constant"),
    "constant-padded": LeNetVariant(about="constant, first convolution padded by 2", placement="constant",
                                    padded=True),
    **{f"code x {scale:g}": LeNetVariant(
        about=f"code, initial weights of the readout's last layer multiplied by {scale:g}", placement="features",
        scheme=CODE, scale=scale)
       for scale in SCALES},
    **{f"{label} times": LeNetVariant(about=f"multiplied with the pixels: {sphere.about}", placement="pixels",
                                      scheme=sphere.scheme)
       for label, sphere in SPHERES.items()},
    "mask": LeNetVariant(about="each pixel multiplied with a trained value", placement="mask"),
    "plain-slow": LeNetVariant(about="plain at a learning rate of 0.0003", lr=SLOW_RATE),
    "code-slow": LeNetVariant(about="as released for CIFAR-10: code at a learning rate of 0.0003",
                              placement="features", scheme=CODE, lr=SLOW_RATE),
}  # fmt: skip
FEATURE_VARIANTS = ("plain", "plain-padded", "as-published", *SPHERES, "constant", "constant-padded")
FURTHER_READOUTS = ("as-released", "note-linear")
"""Readouts of the released code and of the note's text that differ from those of the other variants."""
UNPADDED = ("plain", *SPHERES, "constant")
"""Variants for images of 32 x 32 pixels, for which neither of the author's networks is padded."""
PIXEL_VARIANTS = ("plain", *(f"{label} times" for label in SPHERES), "mask")
INITIAL_SCALES = ("plain", "code", *(f"code x {scale:g}" for scale in SCALES))
RATES = ("plain", "plain-slow", "code", "code-slow")


class TransformerVariant(NamedTuple):
    """An encoding of patches.

    Attributes:
        scheme: The scheme as text.
        about: Description.
        projected: True if a network of width 128 maps the encoding to the tokens.
        in_line: True if the patches have one axis, as the tokens of the note.
    """

    scheme: str
    about: str
    projected: bool = False
    in_line: bool = False


TRANSFORMERS: Mapping[str, TransformerVariant] = {
    "sphere": TransformerVariant(
        "SCPE", "spherical encoding of the note on rows and columns, 3 -> 128 -> dim", projected=True
    ),
    "sphere-in-line": TransformerVariant(
        "SCPE", "the same on the patch number, a quarter circle, 3 -> 128 -> dim", projected=True, in_line=True
    ),
    "sinusoid": TransformerVariant("Sinusoid", "sinusoid on rows and columns"),
    "sinusoid-in-line": TransformerVariant("Sinusoid", "sinusoid on the patch number", in_line=True),
    "nope": TransformerVariant("NoPE", "no positional encoding"),
}


def lenet(label: str, images: ImageRecord) -> tuple[LeNetSpec, float | None]:
    """The LeNet of a label for images, and its own learning rate. Raises ValueError for an unknown label."""
    chosen = lenet_variant(label)
    height, width = images.shape[1:]
    config = LeNetConfig(
        image=(height, width),
        channels=images.shape[0],
        classes=images.classes,
        padding=PADDING if chosen.padded else 0,
        placement=chosen.placement,
        width=height * width if chosen.placement == "constant" else 0,
    )
    scheme = parse(chosen.scheme) if chosen.scheme else None
    if (scheme is not None and split_view(label)[0] not in VARIANTS) or (scheme is not None and chosen.view):
        known = {"n": max(height, width), "dim": WIDTH, "head_dim": WIDTH, "heads": 1, "axes": 2}
        view, scheme = patch_views.view_of(scheme, lambda kind: known, (height, width), chosen.view)
        config = msgspec.structs.replace(config, view=view)
    return LeNetSpec(config=config, scheme=scheme, scale=chosen.scale), chosen.lr


def lenet_variant(label: str) -> LeNetVariant:
    """The variant of a label; a scheme by name is concatenated with the features.

    Raises ValueError for a label that is neither a variant nor a scheme.
    """
    text, view = split_view(label)
    patch_views.refuse_view(view)
    if view:
        return dataclasses.replace(lenet_variant(text), view=view)
    if label in VARIANTS:
        return VARIANTS[label]
    specification = parse_variant(label, label, VARIANTS)
    about = f"concatenated with the features: {specification.scheme}"
    return LeNetVariant(about=about, placement="features", scheme=label)


def is_lenet(label: str) -> bool:
    """Return True if there is a LeNet of this label."""
    try:
        lenet_variant(label)
    except ValueError:
        return False
    return True


def is_transformer(label: str) -> bool:
    """Return True if there is a vision transformer of this label."""
    return label in TRANSFORMERS


def transformer(label: str, images: ImageRecord) -> TransformerSpec:
    """A small vision transformer with the encoding of a label. Raises ValueError for an unknown label."""
    if label not in TRANSFORMERS:
        known = ", ".join(TRANSFORMERS)
        raise ValueError(f"{unknown('variant of the transformer', label, TRANSFORMERS)} The variants are {known}.")
    chosen = TRANSFORMERS[label]
    height, width = images.shape[1:]
    tokens = (height // PATCH) * (width // PATCH)
    options = {"n": tokens} if chosen.projected and chosen.in_line else {}
    if chosen.scheme == "Sinusoid":
        options = {"axes": 1 if chosen.in_line else 2}
    config = vit(
        "quick",
        classes=images.classes,
        image=(height, width),
        channels=images.shape[0],
        read_out="mean",
        options=Options(project=(128,) if chosen.projected else None, view="line" if chosen.in_line else "grid"),
    )
    return TransformerSpec(config=config, scheme=Specification(chosen.scheme, options))
