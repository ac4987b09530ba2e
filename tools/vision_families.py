"""Families of vision models of transformers for docs/models.md, each measured on one tiny model with random weights."""

from __future__ import annotations

import copy
import importlib
import inspect
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from posenc import AxialRoPE, Sinusoid
from posenc.adapt import (
    grid_rotation,
    learned_table,
    replace_grid_rotation,
    replace_window_biases,
    resize_windows,
    vision_transformer,
    window_biases,
)

sys.path.insert(0, str(Path(__file__).parent))
from family_row import ALLOWED, Row, difference, outcome

PICTURE: dict[str, Any] = {
    "hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 64, "image_size": 32,
    "patch_size": 8,
}  # fmt: skip
STAGES: dict[str, Any] = {"image_size": 32, "depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 32, 64],
                          "num_attention_heads": [1, 2, 4, 8]}  # fmt: skip
GROUPS: dict[str, Any] = {"depths": [1, 1, 1], "num_group_tokens": [4, 4, 0], "num_output_groups": [4, 4, 0]}
IMAGES: dict[str, dict[str, Any]] = {
    "ViT": PICTURE, "DeiT": PICTURE, "Dinov2": PICTURE, "Dinov2WithRegisters": PICTURE, "ViTMSN": PICTURE,
    "IJepa": PICTURE, "Pixio": PICTURE, "FlavaImage": PICTURE,
    "DPT": {**PICTURE, "backbone_out_indices": [0, 1, 1, 1], "neck_hidden_sizes": [8, 8, 8, 8]},
    "Beit": {**PICTURE, "use_absolute_position_embeddings": True},
    "Data2VecVision": {**PICTURE, "use_absolute_position_embeddings": True},
    "CLIPVision": PICTURE, "SiglipVision": PICTURE, "AltCLIPVision": PICTURE, "ChineseCLIPVision": PICTURE,
    "MetaClip2Vision": PICTURE, "CLIPSegVision": PICTURE, "OwlViTVision": PICTURE, "Owlv2Vision": PICTURE,
    "BlipVision": PICTURE, "Blip2Vision": PICTURE, "GitVision": PICTURE, "JanusVision": PICTURE,
    "InternVLVision": {**PICTURE, "image_size": (32, 32), "patch_size": (8, 8)}, "Aimv2Vision": PICTURE,
    "GroupViTVision": {**PICTURE, **GROUPS}, "Pvt": STAGES, "ViTMAE": PICTURE,
    "Yolos": {**PICTURE, "image_size": (32, 32)}, "VitDet": PICTURE, "Siglip2Vision": {**PICTURE, "num_patches": 16},
    "PvtV2": {**STAGES, "num_attention_heads": [1, 2, 4, 8]},
}  # fmt: skip
"""Families of ``...Model`` that read images, and sizes of them."""
SWIN: dict[str, Any] = {"image_size": 64, "patch_size": 4, "embed_dim": 8, "depths": [2, 2], "num_heads": [2, 4],
                        "window_size": 4}  # fmt: skip
RELATIVE: dict[str, Any] = {**PICTURE, "use_relative_position_bias": True}
WINDOWS: dict[str, dict[str, Any]] = {
    "Swin": SWIN, "DonutSwin": SWIN, "MaskFormerSwin": SWIN, "Swinv2": SWIN, "Beit": RELATIVE,
    "Data2VecVision": RELATIVE, "ViT": PICTURE,
}  # fmt: skip
"""Families with relative position biases in windows, and one without."""
GRIDS = ("DINOv3ViT", "Sapiens2", "ViT")
"""Families that rotate by the places of patches, and one that does not."""


def image_row(family: str) -> Row:
    """Measure a family with a table of images: read and written, replaced, and for another image size."""
    model = _vision_model(family, IMAGES[family])
    side = 64 if family.startswith("Pvt") else 48

    def read() -> float:
        return difference(_seen(vision_transformer(copy.deepcopy(model), learned_table(model)), 32), _seen(model, 32))

    def replaced() -> float:
        ours = vision_transformer(copy.deepcopy(model), Sinusoid(32, axes=2))
        assert difference(_seen(ours, 32), _seen(model, 32)) > ALLOWED
        return difference(_seen(_loaded(ours), 32), _seen(ours, 32))

    def resized() -> float:
        ours = vision_transformer(copy.deepcopy(model), image=side)
        asked = any("interpolate_pos_encoding" in inspect.signature(m.forward).parameters for m in model.modules())
        try:
            theirs = _seen(model, side, **({"interpolate_pos_encoding": True} if asked else {}))
        except (RuntimeError, ValueError):  # it cannot interpolate
            theirs = _seen(_built(model, {"image_size": side}, "bilinear" if family == "Pvt" else "bicubic"), side)
        return difference(_seen(ours, side), theirs)

    def saved() -> float:
        ours = vision_transformer(copy.deepcopy(model), image=side)
        return difference(_seen(_loaded(ours), side), _seen(ours, side))

    return Row(family, tuple(map(outcome, (read, replaced, resized, saved))))


def window_row(family: str) -> Row:
    """Measure a family with windows: biases read and written, and other windows."""
    model = _vision_model(family, WINDOWS[family])
    before, side = model.config.image_size, 128 if "Swin" in family else 48

    def read() -> float:
        ours = replace_window_biases(copy.deepcopy(model), window_biases(model))
        return difference(_seen(ours, before), _seen(model, before))

    def resized() -> float:
        ours = _with_windows(model, side)
        sizes = {"image_size": side, "window_size": 8, "pretrained_window_sizes": [4, 4]}
        theirs = _built(model, sizes, "bicubic") if "Swin" in family else model  # BEiT interpolates its bias itself
        return difference(_seen(ours, side), _seen(theirs, side))

    def saved() -> float:
        ours = _with_windows(model, side)
        return difference(_seen(_loaded(ours), side), _seen(ours, side))

    return Row(family, tuple(map(outcome, (read, resized, saved))))


def grid_row(family: str) -> Row:
    """Measure a family that rotates by the positions of patches: its own rotation, and another base."""
    model = _vision_model(family, PICTURE)

    def rotation() -> float:
        ours = replace_grid_rotation(copy.deepcopy(model), grid_rotation(model))
        return difference(_seen(ours, 48), _seen(model, 48))

    def base() -> float:
        ours = replace_grid_rotation(copy.deepcopy(model), AxialRoPE(8, base=50.0, pairing="half"))
        assert difference(_seen(ours, 48), _seen(model, 48)) > ALLOWED
        return difference(_seen(ours, 48), _seen(_built(model, {"rope_theta": 50.0}, "bicubic"), 48))

    def saved() -> float:
        ours = replace_grid_rotation(copy.deepcopy(model), AxialRoPE(8, base=50.0, pairing="half"))
        return difference(_seen(_loaded(ours), 48), _seen(ours, 48))

    return Row(family, tuple(map(outcome, (rotation, base, saved))))


def _vision_model(family: str, sizes: dict[str, Any]) -> Any:
    """A tiny model of transformers that reads images, with weights that are all random."""
    transformers = importlib.import_module("transformers")
    torch.manual_seed(0)
    model = getattr(transformers, f"{family}Model")(getattr(transformers, f"{family}Config")(**sizes)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def _seen(model: Any, side: int, **options: Any) -> torch.Tensor:
    """The last hidden states of one picture."""
    with torch.no_grad():
        return model(torch.randn(1, 3, side, side, generator=torch.Generator().manual_seed(0)), **options)[0]


def _loaded(model: Any) -> Any:
    """The model from the files that it writes."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        return type(model).from_pretrained(folder).eval()


def _with_windows(model: Any, side: int) -> Any:
    ours = copy.deepcopy(model)
    return (
        resize_windows(ours, 8, image=side)
        if hasattr(model.config, "window_size")
        else resize_windows(ours, image=side)
    )


def _built(model: Any, sizes: dict[str, Any], mode: str) -> Any:
    """A model built for other sizes with the weights of this one; tables of squares are interpolated by torch."""
    config = copy.deepcopy(model.config)
    for name, value in sizes.items():
        if hasattr(config, name):
            setattr(config, name, value)
    built = type(model)(config).eval()
    for name, parameter in built.named_parameters():
        parameter.data = _stretched(dict(model.named_parameters())[name].detach(), parameter.shape, mode)
    return built


def _stretched(values: torch.Tensor, shape: torch.Size, mode: str) -> torch.Tensor:
    """Values of a table ``(.., rows, width)`` for another number of rows, of which those beyond a square stay."""
    if values.shape == shape or values.dim() < 2:
        return values
    rows, (old, new) = values.flatten(0, -2), (int(t[-2] ** 0.5) for t in (values.shape, shape))
    first, square = rows.split([len(rows) - old * old, old * old])
    wide = torch.nn.functional.interpolate(square.mT.unflatten(1, (old, old))[None], (new, new), mode=mode)
    return torch.cat([first, wide[0].flatten(1).mT]).view(shape)
