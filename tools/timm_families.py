"""Vision models of timm for docs/models.md, each measured on one tiny model with random weights."""

from __future__ import annotations

import copy
import importlib
import warnings
from typing import Any

import torch

from posenc import AxialRoPE, Positions, Sinusoid, grid
from posenc.adapt import (
    grid_rotation,
    replace_grid_rotation,
    replace_window_biases,
    vision_transformer,
    window_biases,
)

from family_row import ALLOWED, Row, difference, outcome  # isort: skip

VISION: dict[str, dict[str, Any]] = {
    "vit_tiny_patch16_224": {}, "deit_tiny_patch16_224": {}, "deit_tiny_distilled_patch16_224": {},
    "deit3_small_patch16_224": {}, "vit_base_patch16_siglip_224": {}, "vit_base_patch16_clip_224": {},
    "vit_small_patch14_reg4_dinov2": {}, "vit_small_patch16_dinov3": {}, "eva02_tiny_patch14_224": {},
    "vit_small_patch16_rope_ape_224": {}, "beit_base_patch16_224": {}, "vit_small_patch16_rope_224": {},
    "cait_xxs24_224": {}, "swin_tiny_patch4_window7_224": {"depths": (1, 1), "num_heads": (2, 2)}, "pvt_v2_b0": {},
    "twins_svt_small": {},
}  # fmt: skip
"""Models of timm, and sizes of them besides width, depth and heads."""
SMALL: dict[str, Any] = {"embed_dim": 48, "depth": 2, "num_heads": 2, "num_classes": 5}
STAGES: dict[str, Any] = {"embed_dim": 16, "depths": (1, 1), "num_heads": (2, 2), "num_classes": 5, "window_size": 4}
TIMM_WINDOWS: dict[str, dict[str, Any]] = {
    "swin_tiny_patch4_window7_224": STAGES, "swin_s3_tiny_224": STAGES, "swinv2_tiny_window8_256": STAGES,
    "swinv2_cr_tiny_224": STAGES, "beit_base_patch16_224": SMALL, "beitv2_base_patch16_224": SMALL,
}  # fmt: skip
"""Models of timm with relative position biases in windows, and sizes of them."""
TIMM_GRIDS = (
    "eva02_tiny_patch14_224", "eva02_base_patch16_clip_224", "vit_small_patch16_dinov3",
    "vit_medium_patch16_rope_reg1_gap_256", "vit_small_patch16_rope_224", "vit_small_patch16_rope_ape_224",
    "vit_small_patch16_rope_mixed_224", "vit_pe_core_tiny_patch16_384", "eva_giant_patch14_224",
    "naflexvit_base_patch16_par_gap",
)  # fmt: skip
"""Models of timm with a rotary embedding of patches, and some that are refused."""


def vision_row(name: str) -> Row:
    """Measure a model of timm: a table of rows, rows of a scheme in its place, and another image size."""
    patch = 14 if "patch14" in name else 16
    sizes = {"img_size": 4 * patch} | SMALL | VISION[name]
    sizes = {key: value for key, value in sizes.items() if not ("swin" in name and key in ("depth", "img_size"))}
    sizes = {} if name.startswith(("pvt", "twins")) else sizes

    def replaced() -> float:
        ours, theirs = vision_transformer(_made(name, sizes), Sinusoid(48, axes=2)), _made(name, sizes)
        prefix = theirs.pos_embed.shape[1] - 16
        pos = grid(4, 4)
        placed = torch.arange(prefix + 16) >= prefix
        scheme = Sinusoid(48, axes=2)
        rows = scheme.embed(scheme.prepare(Positions(torch.cat([pos.coords[:prefix] * 0, pos.coords]), placed)))
        assert difference(_seen(ours, 4 * patch), _seen(theirs, 4 * patch)) > ALLOWED
        theirs.pos_embed.data = rows[None].to(theirs.pos_embed.dtype)
        return difference(_seen(ours, 4 * patch), _seen(theirs, 4 * patch))

    def resized() -> float:
        ours, theirs = vision_transformer(_made(name, sizes), image=6 * patch), _made(name, sizes)
        theirs.set_input_size(img_size=6 * patch)
        return difference(_seen(ours, 6 * patch), _seen(theirs, 6 * patch))

    return Row(name, tuple(map(outcome, (replaced, resized))))


def timm_window_row(name: str) -> Row:
    """Measure a model of timm with windows: biases read and written, then with a larger image and window."""
    model = _made(name, TIMM_WINDOWS[name] | {"img_size": 64})

    def read() -> float:
        ours = replace_window_biases(copy.deepcopy(model), window_biases(model))
        return difference(_seen(ours, 64), _seen(model, 64))

    def resized() -> float:
        sizes = {"img_size": 128} | ({} if name.startswith("beit") else {"window_size": 8})
        ours, theirs = replace_window_biases(copy.deepcopy(model), window_biases(model)), copy.deepcopy(model)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"timm\.layers\.interpolate")  # its own indexing, twice
            for each in (ours, theirs):
                each.set_input_size(**sizes)
        return difference(_seen(ours, 128), _seen(theirs, 128))

    return Row(name, tuple(map(outcome, (read, resized))))


def timm_grid_row(name: str) -> Row:
    """Measure a model of timm that rotates: its own rotation, another base, and another image size."""
    patch = 14 if "patch14" in name else 16
    sizes = SMALL | {"img_size": 4 * patch}
    model = _made(name, sizes)

    def rotation() -> float:
        ours = replace_grid_rotation(copy.deepcopy(model), grid_rotation(model))
        return difference(_seen(ours, 4 * patch), _seen(model, 4 * patch))

    def base() -> float:
        own: Any = grid_rotation(model)
        scheme = AxialRoPE(24, base=50.0, order=own.order, pairing=own.pairing)
        ours, theirs = (
            replace_grid_rotation(copy.deepcopy(model), scheme),
            _made(name, {**sizes, "rope_temperature": 50.0}),
        )
        assert difference(_seen(ours, 4 * patch), _seen(model, 4 * patch)) > ALLOWED
        return difference(_seen(ours, 4 * patch), _seen(theirs, 4 * patch))

    def resized() -> float:
        ours, theirs = replace_grid_rotation(copy.deepcopy(model), grid_rotation(model)), copy.deepcopy(model)
        for each in (ours, theirs):
            each.set_input_size(img_size=6 * patch)
        return difference(_seen(ours, 6 * patch), _seen(theirs, 6 * patch))

    return Row(name, tuple(map(outcome, (rotation, base, resized))))


def _made(name: str, sizes: dict[str, Any]) -> Any:
    """A tiny model of timm, with weights that are all random."""
    timm = importlib.import_module("timm")
    torch.manual_seed(0)
    model = timm.create_model(name, **sizes).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def _seen(model: Any, side: int) -> torch.Tensor:
    """Features of one picture."""
    with torch.no_grad():
        return model.forward_features(torch.randn(1, 3, side, side, generator=torch.Generator().manual_seed(0)))
