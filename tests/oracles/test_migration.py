"""docs/migration.md: both sides of each row have the same values."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from posenc.kernels.grid_levels import tcnn_growth
from posenc.positions import Positions

pytestmark = [pytest.mark.oracles, pytest.mark.bare]
DOCUMENT = (Path(__file__).parents[2] / "docs" / "migration.md").read_text(encoding="utf-8")
START, *SECTIONS = re.split(r"^## ", DOCUMENT, flags=re.M)
BY_NAME = {section.partition("\n")[0]: section for section in SECTIONS}
ROW = re.compile(r"^\| `([^`]+)` \| `([^`]+)` \|$", re.M)
BLOCK = re.compile(r"^```python[^\n]*\n(.*?)^```", re.M | re.S)
SCHEME = re.compile(r"\b[A-Z]\w*(?=\()")
COMPARED = [
    pytest.param(
        name, there, here, id=f"{name}: {there}"[:80],
        marks=[pytest.mark.compares(SCHEME.findall(here)[0], name, "rows of migration.md")],
    )
    for name, section in BY_NAME.items()
    for table in re.findall(r"^\| there \| here \|\n(?:\|.*\n)+", section, re.M)
    for there, here in ROW.findall(table)
]  # fmt: skip


def names_of(section: str) -> dict[str, Any]:
    """Names that the blocks of the beginning and of a section define."""
    names: dict[str, Any] = {"math": math, "tcnn_growth": tcnn_growth}
    for block in BLOCK.findall(START) + BLOCK.findall(section):
        exec(block, names)
    return names


@pytest.mark.parametrize(("library", "there", "here"), COMPARED)
def test_both_sides_of_a_row_have_the_same_values(library, there, here, request, same):
    if library == "timm":
        request.getfixturevalue("timm")
    else:
        pytest.importorskip(library.replace("-", "_"))
    names = names_of(BY_NAME[library])
    want, found = eval(there, names), eval(here, names)
    same(found.expand_as(want), want)


def test_no_row_is_left_out():
    assert len(COMPARED) >= 25
    assert {param.values[0] for param in COMPARED} == set(BY_NAME) - {"tiny-cuda-nn"}


CUDA = {json.loads(left)["otype"]: (json.loads(left), right) for left, right in ROW.findall(BY_NAME["tiny-cuda-nn"])}


def built(otype: str) -> tuple[dict[str, Any], Any]:
    options, code = CUDA[otype]
    return options, eval(code, names_of(BY_NAME["tiny-cuda-nn"]))


@pytest.mark.parametrize("otype", ["HashGrid", "DenseGrid"])
def test_grids_have_the_parameters_of_tiny_cuda_nn(otype):
    """Rows of a level in grid.h: resolution^3, filled up to a multiple of 8, at most 2^log2_hashmap_size."""
    options, scheme = built(otype)
    most = 2 ** options.get("log2_hashmap_size", 32)
    rows = 0
    for level in range(options["n_levels"]):
        scale = options["base_resolution"] * options.get("per_level_scale", 2.0) ** level - 1
        rows += min(-(-((math.ceil(scale) + 1) ** 3) // 8) * 8, most)
    features = options["n_features_per_level"]
    assert sum(each.numel() for each in scheme.parameters()) == rows * features
    assert scheme.out_dim == options["n_levels"] * features


def values(scheme: Any, x: torch.Tensor) -> torch.Tensor:
    return scheme.embed(scheme.prepare(Positions(x)))


@pytest.mark.compares("Sinusoid", "transcribed", "NVlabs/tiny-cuda-nn, rows of migration.md")
def test_frequency_is_the_formula_of_tiny_cuda_nn(same):
    options, scheme = built("Frequency")
    x = torch.rand(7, 3, dtype=torch.float64)
    angles = math.pi * x[..., None] * 2 ** torch.arange(options["n_frequencies"])
    want = torch.stack([angles.sin(), (angles + math.pi / 2).sin()], -1).flatten(1)
    found = values(scheme, x)
    same(found, want.to(found.dtype))


@pytest.mark.compares("OneBlob", "transcribed", "NVlabs/tiny-cuda-nn, rows of migration.md")
def test_one_blob_is_the_formula_of_tiny_cuda_nn(same):
    options, scheme = built("OneBlob")
    bins, x = options["n_bins"], torch.rand(7, 3, dtype=torch.float64)

    def below(edge: torch.Tensor) -> torch.Tensor:
        """Integral of the quartic kernel of unit support up to an edge, in bins from its center."""
        u = edge.clamp(-1, 1)
        return 15 / 16 * u * (1 - 2 / 3 * u**2 + u**4 / 5) + 0.5

    edges = torch.arange(bins + 1) / bins - x[..., None]
    total = sum(below(bins * (edges + turn)) for turn in (-1, 0, 1))
    want = (total[..., 1:] - total[..., :-1]).flatten(1)
    found = values(scheme, x)
    same(found, want.to(found.dtype))
