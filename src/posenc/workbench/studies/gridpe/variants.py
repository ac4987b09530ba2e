"""Encodings of the grid-cell study: those of its paper's Table 1, as published and as released, and others."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from posenc.lookup.scheme_reference import split_view
from posenc.lookup.scheme_text import Specification, parse, parse_variant
from posenc.models.pvt import LITERAL as PVT_LITERAL
from posenc.models.pvt import pvt
from posenc.models.vision import VisionConfig
from posenc.models.vision_stage import SIGMA, Options
from posenc.models.vit import LITERAL as VIT_LITERAL
from posenc.models.vit import vit
from posenc.workbench.studies.shared import patch_views
from posenc.workbench.studies.shared.classification import TransformerSpec
from posenc.workbench.studies.shared.image_data import ImageRecord
from posenc.workbench.studies.shared.learned_tables import PREFIX, learned, sigma_of
from posenc.workbench.studies.shared.written_schemes import named_like

GRID_FORMS = ("rotate", "merge", "complex", "deep")
"""The four forms of grid-cell encoding in the paper."""
HEAD_COUNTS = (1, 2, 4, 8)
GROUP, SHORTEST = 6, 4.0
"""Channels in a group of GridPE on two axes, and its default shortest wavelength in patches."""
Architecture = Literal["vit", "pvt"]
BY_NAME = "scheme by name"
LEARNED = learned(SIGMA)
"""Learned table of the model, whose initial standard deviation is that of the other weights."""


def with_heads(label: str, heads: int) -> str:
    """Label of a variant in a model with this number of attention heads."""
    return f"{label}-{heads}-heads"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Encoding:
    """An encoding and its model options.

    Attributes:
        scheme: The scheme as text.
        about: Description.
        literal: Use the model as released.
        tables: Add learned position tables to the model.
        pooled: Use the mean of all tokens in place of a class token, as in CPVT.
        heads: Number of attention heads; None for that of the model's size.
        view: View of the patches that a label names; "" for none.
    """

    scheme: str
    about: str
    literal: bool = False
    tables: bool = False
    pooled: bool = False
    heads: int | None = None
    view: str = ""


def _grid(form: str, *, literal: bool = False) -> str:
    return f"Grid{form.capitalize()}({'literal=True' if literal else ''})"


_SHARED: Mapping[str, Encoding] = {
    "nope": Encoding(scheme="NoPE", about="no positional encoding"),
    "sinusoid": Encoding(scheme="Sinusoid(axes=2)", about="sinusoids of row and column, added to the patches"),
    "rope-axial": Encoding(scheme="AxialRoPE", about="rotary: half of the channel pairs by row, half by column"),
    "rope-mixed": Encoding(scheme="MixedRoPE", about="rotary: channel pairs along trained directions"),
    "gridpe": Encoding(
        scheme="GridPE", about="rotary: channel pairs along the directions of a simplex; translation invariant"
    ),
    **{f"grid-{form}": Encoding(scheme=_grid(form), about=f"Grid{form.capitalize()} of the paper, as published")
       for form in GRID_FORMS},
}  # fmt: skip
VIT: Mapping[str, Encoding] = {
    LEARNED: Encoding(
        scheme="NoPE", about="learned table, initial standard deviation 0.02, as in the paper's plain ViT", tables=True
    ),
    **_SHARED,
    "nope-literal": Encoding(scheme="NoPE", about="released ViT (no norm before attention) without a table",
                             literal=True),
    "learned-literal": Encoding(
        scheme="NoPE", about="released ViT (no norm before attention), table initialized from N(0, 1)",
        literal=True, tables=True,
    ),
    **{f"grid-{form}-literal": Encoding(
        scheme=_grid(form, literal=True), literal=True,
        about=f"Grid{form.capitalize()} as released: waves drawn anew at each call, tokens numbered in one line",
       ) for form in GRID_FORMS},
    **{with_heads(base, heads): Encoding(scheme=scheme, about=f"{base} in a model with {heads} attention heads",
                                         heads=heads, tables=base == LEARNED)
       for base, scheme in ((LEARNED, "NoPE"), ("gridpe", "GridPE")) for heads in HEAD_COUNTS},
}  # fmt: skip
PVT: Mapping[str, Encoding] = {
    "pvt-o": Encoding(scheme="NoPE", about="original PVT: a learned table in each stage", tables=True),
    "cpvt": Encoding(
        scheme="PEG", about="CPVT: a convolution after the first block of each stage, no class token", pooled=True
    ),
    "pvt-abs": Encoding(scheme="Sinusoid(axes=2)", about="sinusoids beside the learned tables", tables=True),
    **{label: encoding for label, encoding in _SHARED.items() if label != "sinusoid"},
    **{f"grid-{form}-literal": Encoding(
        scheme=_grid(form, literal=True), literal=True,
        about=f"Grid{form.capitalize()} as released: in the first block of each stage, beside learned tables",
       ) for form in GRID_FORMS},
}  # fmt: skip

AS_PUBLISHED = (LEARNED, *_SHARED)
AS_RELEASED = ("nope-literal", "learned-literal", *(f"grid-{form}-literal" for form in GRID_FORMS))
RELEASED_AND_PUBLISHED = (*AS_RELEASED, LEARNED, "nope", *(f"grid-{form}" for form in GRID_FORMS))
"""The paper's ViT encodings as released and as published."""
SIZE_VARIANTS = ("gridpe", "rope-axial", "rope-mixed", LEARNED, "sinusoid", "nope")
BY_HEADS = tuple(with_heads(base, heads) for base in (LEARNED, "gridpe") for heads in HEAD_COUNTS)
PVT_AS_PUBLISHED = ("pvt-o", "cpvt", "pvt-abs", *(label for label in _SHARED if label != "sinusoid"))
PVT_AS_RELEASED = tuple(f"grid-{form}-literal" for form in GRID_FORMS)


def has_variant(architecture: Architecture, label: str) -> bool:
    """Return True if an architecture has a variant of this label: one of its own, or any scheme by name."""
    try:
        encoding(architecture, label)
    except ValueError:
        return False
    return True


def encoding(architecture: Architecture, label: str) -> Encoding:
    """The encoding of a label. Raises ValueError for a label that is neither a variant nor a scheme."""
    text, view = split_view(label)
    patch_views.refuse_view(view)
    if view:
        return dataclasses.replace(encoding(architecture, text), view=view)
    encodings = VIT if architecture == "vit" else PVT
    if label in encodings:
        return encodings[label]
    if label.startswith(PREFIX):
        return Encoding(scheme=f"Learned(sigma={sigma_of(label)})", about=f"learned table, {label}")
    written = parse_variant(label, label, encodings)
    plain = {name: each for name, each in encodings.items() if not each.literal and each.heads is None}
    like = named_like(written, {name: parse(each.scheme) for name, each in plain.items()})
    by_name = Encoding(scheme=label, about=BY_NAME)
    if like is None:
        return by_name
    return dataclasses.replace(by_name, tables=plain[like].tables, pooled=plain[like].pooled)


def variant(
    architecture: Architecture,
    label: str,
    images: ImageRecord,
    size: str,
    patch: int | None = None,
    dropout: float = 0.0,
) -> TransformerSpec:
    """Model of a size with an encoding, for images.

    Args:
        architecture: The architecture.
        label: Label of the variant, or a scheme as text.
        images: Record of the images.
        size: Name of the model's size.
        patch: Pixels per side of a patch of the first stage; None for that of the size.
        dropout: Dropout probability.

    Returns:
        The model.

    Raises:
        ValueError: The label is unknown, or the scheme or the patch does not fit.
    """
    chosen = encoding(architecture, label)
    shape: dict[str, Any] = {"classes": images.classes, "image": images.shape[1:], "channels": images.shape[0]}
    if architecture == "vit":
        options = VIT_LITERAL if chosen.literal else Options()
        config = vit(size, options=msgspec.structs.replace(options, tables=chosen.tables), **shape)
    else:
        options = PVT_LITERAL if chosen.literal else Options(patches="normed", tables=chosen.tables)
        config = pvt(size, options=options, read_out="mean" if chosen.pooled else "class", **shape)
    if dropout:
        config = msgspec.structs.replace(config, options=msgspec.structs.replace(config.options, dropout=dropout))
    config = config if patch is None else _with_stage_sizes(config, 1, patch=patch)
    config = config if chosen.heads is None else _with_stage_sizes(config, len(config.stages), heads=chosen.heads)
    scheme = fit_scheme(chosen.scheme, config)
    if chosen.view or chosen.about == BY_NAME:
        view, scheme = patch_views.view_of(scheme, config.sites[0].scheme_arguments, config.sites[0].shape, chosen.view)
        config = msgspec.structs.replace(config, options=msgspec.structs.replace(config.options, view=view))
    first_only = chosen.literal and architecture == "pvt"
    return TransformerSpec(config=config, scheme=scheme, first_only=first_only)


def _with_stage_sizes(config: VisionConfig, stages: int, **sizes: int) -> VisionConfig:
    """The configuration with other sizes in its first stages."""
    changed = tuple(msgspec.structs.replace(stage, **sizes) for stage in config.stages[:stages])
    return msgspec.structs.replace(config, stages=changed + config.stages[stages:])


def fit_scheme(text: str, config: VisionConfig) -> Specification:
    """Scheme of a text. A GridPE without options gets options that fit a model.

    It has one rotation per head, as in version 3 of the paper. Where a stage has too few groups of channels to span
    its grid by the default ratio of wavelengths, the ratio is the smallest that spans the grids of all stages. A head
    with a single group has the shortest wavelength alone.
    """
    specification = parse(text)
    if specification.scheme != "GridPE" or specification.options:
        return specification
    # A model of several stages passes each stage's own number of heads.
    options: dict[str, Any] = {} if config.stages[1:] else {"heads": config.stages[0].heads}
    for site in config.sites:
        groups, extent = site.dim // site.heads // GROUP, float(max(site.shape))
        if groups == 1:
            options["extent"] = SHORTEST
        elif groups and SHORTEST * math.exp(0.5) ** (groups - 1) < extent:
            ratio = (extent / SHORTEST) ** (1 / (groups - 1))
            options["ratio"] = max(ratio, options.get("ratio", 0.0))
    return Specification(specification.scheme, options)
