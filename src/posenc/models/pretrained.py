"""Pretrained weights of vision transformers from other libraries: ViT of timm and transformers, and PVT.

    loaded = load_weights(VisionTransformer(config, schemes), timm_model.state_dict())
    print(loaded)

Supported parameter names: timm's VisionTransformer (also DeiT and MAE, which use the same names), ViT and PVT of
transformers, and github whai362/PVT. Their position tables have a row for the class token. In posenc the class token
has no position, so that row is added to the class token itself, which gives the same outputs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
import torch
from torch import Tensor

from posenc.models.vision import VisionTransformer

BLOCK = r"stages\.\d+\.blocks\.\d+\."
RULES: tuple[tuple[str, str], ...] = (
    (r"^(module|vit|deit|pvt|model)\.", ""),
    # transformers' ViT, and its PVT with four stages
    (r"^embeddings\.cls_token$", "cls_token"),
    (r"^embeddings\.position_embeddings$", "stages.0.rows"),
    (r"^embeddings\.patch_embeddings\.projection\.", "stages.0.patches."),
    (r"^(encoder\.)?layers?\.(\d+)\.", r"stages.0.blocks.\2."),
    (r"^encoder\.patch_embeddings\.\d+\.cls_token$", "cls_token"),
    (r"^encoder\.patch_embeddings\.(\d+)\.projection\.", r"stages.\1.patches."),
    (r"^encoder\.patch_embeddings\.(\d+)\.layer_norm\.", r"stages.\1.after_patches."),
    (r"^encoder\.patch_embeddings\.(\d+)\.position_embeddings$", r"stages.\1.rows"),
    (r"^encoder\.block\.(\d+)\.(\d+)\.", r"stages.\1.blocks.\2."),
    (r"^(encoder\.layer_norm|layernorm)\.", "norm."),
    (r"^classifier\.", "head."),
    # timm's ViT, and the PVT of whai362, whose stages count from 1
    (r"^patch_embed\.proj\.", "stages.0.patches."),
    (r"^pos_embed$", "stages.0.rows"),
    (r"^blocks\.(\d+)\.", r"stages.0.blocks.\1."),
    (r"^patch_embed([1-9])\.proj\.", r"stages.-\1.patches."),
    (r"^patch_embed([1-9])\.norm\.", r"stages.-\1.after_patches."),
    (r"^pos_embed([1-9])$", r"stages.-\1.rows"),
    (r"^block([1-9])\.(\d+)\.", r"stages.-\1.blocks.\2."),
)
INSIDE: tuple[tuple[str, str], ...] = (
    (r"^attention\.(attention|self)\.", "attention."),
    (r"^attention\.(q_proj|query)\.", "q."),
    (r"^attention\.(k_proj|key)\.", "k."),
    (r"^attention\.(v_proj|value)\.", "v."),
    (r"^attention\.(o_proj|output\.dense)\.", "out."),
    (r"^attention\.sequence_reduction\.", "reduce."),
    (r"^attention\.layer_norm\.", "reduce_norm."),
    (r"^attn\.proj\.", "out."),
    (r"^attn\.sr\.", "reduce."),
    (r"^attn\.norm\.", "reduce_norm."),
    (r"^attn\.", ""),
    (r"^(layernorm_before|layer_norm_1)\.", "norm1."),
    (r"^(layernorm_after|layer_norm_2)\.", "norm2."),
    (r"^(mlp\.fc1|mlp\.dense1|intermediate\.dense)\.", "up."),
    (r"^(mlp\.fc2|mlp\.dense2|output\.dense)\.", "down."),
)
"""Rules that rename a parameter inside a block: (pattern, replacement)."""

PARTS = (("q", "k", "v"), ("q", "kv"))


class LoadReport(msgspec.Struct, frozen=True):
    """Report of ``load_weights``.

    Attributes:
        loaded: names of the model's parameters that were loaded.
        left: given names that were not loaded, each with the reason.
        kept: names of the model's parameters that kept their values, because no weight was given for them.
    """

    loaded: list[str]
    left: dict[str, str]
    kept: list[str]

    def __str__(self) -> str:
        lines = [f"loaded {len(self.loaded)} of this model's {len(self.loaded) + len(self.kept)} weights"]
        lines += [f"not taken: {name}: {why}" for name, why in self.left.items()]
        return "\n".join([*lines, *(f"as it was: {name}" for name in self.kept)])


def load_weights(model: VisionTransformer, weights: Mapping[str, Tensor], *, head: bool = True) -> LoadReport:
    """Copy pretrained weights into a vision transformer.

    Args:
        model: the model to load into.
        weights: the ``state_dict`` of a model of timm, transformers or github whai362/PVT.
        head: False to keep the model's own classifier, as for other classes.

    Returns:
        A report of the loaded and the ignored names.

    Raises:
        ValueError: a weight of another shape than the model's, or no known name at all. The model is then unchanged.
    """
    given, source = _by_our_names(weights)
    left: dict[str, str] = {}
    own = dict(model.named_parameters())
    own |= {name: buffer for name, buffer in model.named_buffers() if name in model.state_dict()}
    _place_rows(model, given, source, own, left)
    ready: dict[str, Tensor] = {}
    for name, tensor in given.items():
        if name.startswith("head.") and not head:
            left[source[name]] = "the classifier is left as it was, as head=False asks"
        elif name not in own:
            left[source[name]] = "this model has nothing of that kind"
        else:
            ready[name] = _fitting(tensor, own[name], name, source[name])
    if not ready:
        first = next(iter(weights), "nothing")
        raise ValueError(
            f"none of the {len(weights)} names is known, as {first!r}. Pass the state_dict of timm's or transformers' "
            "ViT or PVT, or that of this model to model.load_state_dict."
        )
    with torch.no_grad():
        for name, tensor in ready.items():
            own[name].copy_(tensor)
    return LoadReport(sorted(ready), left, sorted(set(own) - set(ready)))


def _by_our_names(weights: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the weights by posenc's parameter names, and the original name of each."""
    given: dict[str, Tensor] = {}
    source: dict[str, str] = {}
    for name, tensor in weights.items():
        ours = name
        for pattern, becomes in RULES:
            ours = re.sub(pattern, becomes, ours)
        ours = re.sub(r"^stages\.-(\d)", lambda found: f"stages.{int(found[1]) - 1}", ours)
        if inside := re.match(BLOCK, ours):
            part = ours[inside.end() :]
            for pattern, becomes in INSIDE:
                part = re.sub(pattern, becomes, part)
            ours = inside[0] + part
        given[ours], source[ours] = tensor, name
    for name in [name for name in given if re.fullmatch(BLOCK + r"q\.(weight|bias)", name)]:
        stem, kind = name.rsplit("q.", 1)
        for parts in PARTS:
            apart = [f"{stem}{part}.{kind}" for part in parts]
            if all(one in given for one in apart):
                joined = f"{stem}qkv.{kind}"
                source[joined] = ", ".join(source.pop(one) for one in apart)
                given[joined] = torch.cat([given.pop(one) for one in apart])
                break
    return given, source


def _place_rows(
    model: VisionTransformer, given: dict[str, Tensor], source: dict[str, str], own: Mapping[str, Tensor],
    left: dict[str, str],
) -> None:  # fmt: skip
    """Assign position tables to the stage's table or its scheme's, and their class row to the class token."""
    last = len(model.stages) - 1
    if "cls_token" in given:
        name = f"stages.{last}.class_token"
        given[name], source[name] = given.pop("cls_token").flatten(), source.pop("cls_token")
    for stage in range(last + 1):
        table, original = given.pop(f"stages.{stage}.rows", None), source.pop(f"stages.{stage}.rows", "")
        if table is None:
            continue
        first: Any = model.stages[stage]
        embeds = "embed" in first.schemes[0].claims.sites  # the table of a bias holds no rows for positions
        candidates = (f"stages.{stage}.table.table", *([f"stages.{stage}.schemes.0.table"] if embeds else []))
        name = next((name for name in candidates if name in own), None)
        if name is None:
            left[original] = "this model has no learned table there: its positions are its scheme's"
            continue
        table, token = table.squeeze(0), f"stages.{stage}.class_token"
        if len(table) == len(own[name]) + 1:
            if token in given:
                given[token] = given[token] + table[0]
            table = table[1:]
        given[name], source[name] = table, original


def _fitting(tensor: Tensor, own: Tensor, name: str, original: str) -> Tensor:
    """Return the weight in the shape of the model's parameter. Raises ValueError if the shapes do not fit."""
    if own.dim() == 4 and tensor.dim() == 2 and tensor.numel() == own.numel():
        tensor = tensor.view_as(own)  # the patch convolution was stored as a linear layer
    if tensor.shape != own.shape:
        rows = name.endswith("table")
        fix = (
            "Load it at its own size, and take model.resized((height, width)) after that."
            if rows
            else "Leave the classifier out with head=False."
            if name.startswith("head.")
            else "Build the model with the sizes that the weights have."
        )
        raise ValueError(f"{original} has shape {tuple(tensor.shape)} and {name} here {tuple(own.shape)}. {fix}")
    return tensor
