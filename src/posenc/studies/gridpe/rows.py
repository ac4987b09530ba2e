"""The rows of the grid-cell study: the twelve of its paper's Table 1, clean and as released, and those beside them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from posenc.models.pvt import LITERAL as PVT_LITERAL
from posenc.models.pvt import pvt
from posenc.models.stage import Options
from posenc.models.vision import VisionConfig
from posenc.models.vit import LITERAL as VIT_LITERAL
from posenc.models.vit import vit
from posenc.specification import Specification, parse, unknown
from posenc.studies.classifying import TransformerRow
from posenc.studies.picture_sets import Pictures

VARIANTS = ("rotate", "merge", "complex", "deep")
HEADS = (1, 2, 4, 8)
WAVES, SHORTEST = 6, 4.0
"""Channels of a simplex in the plane, and GridPE's shortest wave."""
Block = Literal["vit", "pvt"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kind:
    """What makes a row. literal: as released. tables: the model's own learned ones beside the scheme. pooled: no class
    token, as in CPVT. heads: of the model, where not its own number."""

    scheme: str
    about: str
    literal: bool = False
    tables: bool = False
    pooled: bool = False
    heads: int | None = None


def _variant(name: str, *, literal: bool = False) -> str:
    return f"Grid{name.capitalize()}({'literal=True' if literal else ''})"


_SHARED: Mapping[str, Kind] = {
    "nope": Kind(scheme="NoPE", about="nothing"),
    "sinusoid": Kind(scheme="Sinusoid(axes=2)", about="sinusoids of rows and columns, added"),
    "rope-axial": Kind(scheme="AxialRoPE", about="half the pairs turn by rows, half by columns"),
    "rope-mixed": Kind(scheme="MixedRoPE", about="pairs turn along trained directions"),
    "gridpe": Kind(scheme="GridPE", about="pairs turn along the directions of a simplex; exactly relative"),
    **{f"grid-{name}": Kind(scheme=_variant(name), about=f"the paper's {name}, its equations") for name in VARIANTS},
}
VIT: Mapping[str, Kind] = {
    "learned": Kind(scheme="NoPE", about="a learned table, the paper's plain ViT", tables=True),
    **_SHARED,
    "nope-literal": Kind(scheme="NoPE", about="the released ViT without any table: no norm before attention",
                         literal=True),
    "learned-literal": Kind(
        scheme="NoPE", about="the released ViT: no norm before attention, its table N(0, 1)", literal=True, tables=True
    ),
    **{f"grid-{name}-literal": Kind(
        scheme=_variant(name, literal=True), literal=True,
        about=f"the released {name}: waves drawn anew at each call, tokens counted in one line",
       ) for name in VARIANTS},
    **{f"{base}, {heads} heads": Kind(scheme=scheme, about=f"the same, heads in the model: {heads}", heads=heads,
                                      tables=base == "learned")
       for base, scheme in (("learned", "NoPE"), ("gridpe", "GridPE")) for heads in HEADS},
}  # fmt: skip
PVT: Mapping[str, Kind] = {
    "pvt-o": Kind(scheme="NoPE", about="PVT with its own learned tables", tables=True),
    "cpvt": Kind(scheme="PEG", about="a convolution after each stage's first block, no class token", pooled=True),
    "pvt-abs": Kind(scheme="Sinusoid(axes=2)", about="sinusoids beside the learned tables", tables=True),
    **{label: kind for label, kind in _SHARED.items() if label != "sinusoid"},
    **{f"grid-{name}-literal": Kind(
        scheme=_variant(name, literal=True), literal=True,
        about=f"the released {name}: the first block of each stage alone, beside learned tables",
       ) for name in VARIANTS},
}  # fmt: skip

CLEAN = ("learned", *_SHARED)
LITERAL = ("nope-literal", "learned-literal", *(f"grid-{name}-literal" for name in VARIANTS))
BOTH = (*LITERAL, "learned", "nope", *(f"grid-{name}" for name in VARIANTS))
"""As released and clean, side by side."""
RESIZED = ("gridpe", "rope-axial", "rope-mixed", "learned", "sinusoid", "nope")
OF_HEADS = tuple(f"{base}, {heads} heads" for base in ("learned", "gridpe") for heads in HEADS)
PYRAMID = ("pvt-o", "cpvt", "pvt-abs", *(label for label in _SHARED if label != "sinusoid"))
PYRAMID_LITERAL = tuple(f"grid-{name}-literal" for name in VARIANTS)


def belongs(block: Block, label: str) -> bool:
    """Whether models of a block have a row of this label: one of theirs, or any encoding by name."""
    try:
        kind(block, label)
    except ValueError:
        return False
    return True


def kind(block: Block, label: str) -> Kind:
    """What makes a row. Raises ValueError for a label that nobody has."""
    kinds = VIT if block == "vit" else PVT
    return kinds.get(label) or _by_name(label, kinds)


def row(block: Block, label: str, pictures: Pictures, size: str, patch: int | None = None) -> TransformerRow:
    """A row for pictures, in a model of that size; patch: of its first stage, where it is not the size's own.

    Raises ValueError for a label that nobody has, and a scheme or a patch that does not fit.
    """
    of = kind(block, label)
    given: dict[str, Any] = {
        "classes": pictures.classes,
        "image": pictures.shape[1:],
        "channels": pictures.shape[0],
    }
    if block == "vit":
        options = VIT_LITERAL if of.literal else Options()
        config = vit(size, options=msgspec.structs.replace(options, tables=of.tables), **given)
    else:
        options = PVT_LITERAL if of.literal else Options(patches="normed", tables=of.tables)
        config = pvt(size, options=options, read_out="mean" if of.pooled else "class", **given)
    config = config if patch is None else _with(config, 1, patch=patch)
    config = config if of.heads is None else _with(config, len(config.stages), heads=of.heads)
    return TransformerRow(config=config, scheme=_fitting(of.scheme, config), first_only=of.literal and block == "pvt")


def _by_name(label: str, kinds: Mapping[str, Kind]) -> Kind:
    """An encoding of the user's own."""
    try:
        parse(label)
    except ValueError:
        raise ValueError(
            f"{unknown('row', label, kinds)} The rows are {', '.join(kinds)}; or name a scheme, as "
            "GridPE(shortest=2.0)."
        ) from None
    return Kind(scheme=label, about="by name")


def _with(config: VisionConfig, first: int, **sizes: int) -> VisionConfig:
    """The same with other sizes of the first so many stages."""
    changed = tuple(msgspec.structs.replace(stage, **sizes) for stage in config.stages[:first])
    return msgspec.structs.replace(config, stages=changed + config.stages[first:])


def _fitting(text: str, config: VisionConfig) -> Specification:
    """The scheme as text says it; a GridPE without options gets one rotation a head, as the paper's third version has
    it, and where a head has few channels a ratio that lets them span the grid."""
    named = parse(text)
    if named.scheme != "GridPE" or named.options or config.stages[1:]:
        return named
    stage, extent = config.stages[0], float(max(config.sites[0].shape))
    options: dict[str, Any] = {"heads": stage.heads}
    groups = stage.dim // stage.heads // WAVES
    if groups == 1:
        options["extent"] = SHORTEST
    elif groups and SHORTEST * math.exp(0.5) ** (groups - 1) < extent:
        options["ratio"] = (extent / SHORTEST) ** (1 / (groups - 1))
    return Specification(named.scheme, options)
