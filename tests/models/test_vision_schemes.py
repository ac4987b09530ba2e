"""Every scheme of the catalogue in every vision transformer: it runs and is trained, or one sentence says why not."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

from posenc.lookup.scheme_text import Specification, parse
from posenc.models.pvt import pvt
from posenc.models.sites import at_sites
from posenc.models.vision import VisionConfig, VisionTransformer
from posenc.models.vision_stage import Options
from posenc.models.vit import vit
from posenc.schemes import catalogue
from tiers import full_except

OPTIONS: dict[str, dict[str, Any]] = {
    "ChunkedAttention": {"chunk": 5},
    "ConvPE": {"kernel": 5, "groups": 4},
    "DenseGrid": {"resolution": 7},
    "HashGrid": {"resolution": 7, "table_size": 64},
    "KPlanes": {"resolutions": (3,), "features": 2},
    "MultiResolutionGrid": {"resolutions": (3, 5), "table_size": 32},
    "PermutohedralGrid": {"scales": (3.0, 1.0), "table_size": 64},
    "SlidingWindow": {"size": 5},
    "TensoRF": {"resolution": 3, "components": 2},
    "SphericalHarmonics": {"degree": 3},
    "SectionedRoPE": {"sections": (8, 8)},
}
"""Sizes that no picture says."""

OF_OTHERS = {"Concat": "is made of other schemes", "ConcatAxes": "is made of other schemes",
             "Sum": "is made of other schemes",
             "Scaled": "is made of other schemes", "BiPE": "is made of other schemes",
             "DAPE": "is made of other schemes", "TensoRF": "reads 3 axes per position",
             "GraphDistance": "reads the hops of a batch of graphs",
             "SPE": "reads the eigenvalues of a batch of graphs"}  # fmt: skip
LONG = {"GraphDistance": "max_distance from 1 to 127"}
"""A stage of PVT has distances of up to 255."""
FEW = {"FoPE": "the shortest has 2 pi positions"}
"""The last stages of PVT have four tokens and one."""
CELLS = dict.fromkeys(
    ("DenseGrid", "HashGrid", "KPlanes", "MultiResolutionGrid", "OneBlob"),
    "is defined from 0 to 1 on axis 0; position 2",
)
TURN = dict.fromkeys(
    ("GeoCLIP", "SphereC", "SphereCPlus", "SphereDFS", "SphereM", "SphereMPlus", "SphericalHarmonics"),
    "reads (longitude, latitude) in radians, within one turn; got 15",
)
WHOLE = dict.fromkeys(
    ("Learned", "Random", "RelativeLogits", "Shaw", "T5Bias", "SwinBias", "LogCPB"), "counts in whole positions"
)
BETWEEN = {name: WHOLE[name] for name in ("RelativeLogits", "Shaw", "T5Bias", "SwinBias", "LogCPB")}


def small_vit(**options: Any) -> VisionConfig:
    return vit("quick", image=(16, 24), channels=1, classes=3, options=Options(project=(), **options))


def small_pvt(**options: Any) -> VisionConfig:
    options = {"patches": "normed", "project": ()} | options
    return pvt("micro", image=32, channels=1, classes=3, read_out="mean", options=Options(**options))


MODELS = {
    "vit": (small_vit, {}, OF_OTHERS | CELLS),
    "vit, unit square": (lambda: small_vit(view="unit", placement="every_block"), {}, OF_OTHERS | WHOLE),
    "pvt": (small_pvt, {}, OF_OTHERS | LONG | FEW | CELLS | TURN | BETWEEN),
    "pvt, first blocks": (
        lambda: small_pvt(placement="attention", keys="corner", tables=True),
        {"first_only": True},
        OF_OTHERS | LONG | FEW | CELLS | TURN,
    ),
}


@pytest.mark.parametrize("name", list(catalogue()))
@pytest.mark.parametrize("model", full_except(MODELS, "vit", "pvt"))
def test_it_runs_or_a_sentence_says_why_not(model, name):
    make, how, refused = MODELS[model]
    config = make()
    schemes = at_sites(Specification(name, OPTIONS.get(name, {})), config.sites, **how)

    def run() -> VisionTransformer:
        net = VisionTransformer(config, schemes)
        out = net(torch.randn(2, config.channels, *config.image))
        assert out.shape == (2, config.classes)
        out.square().sum().backward()
        return net

    if name in refused:
        with pytest.raises(ValueError, match=re.escape(refused[name])) as caught:
            run()
        assert "\n" not in str(caught.value)
        assert str(caught.value).endswith((".", "posenc list", "posenc list --axes 2"))
        return
    net = run()
    for called, parameter in net.named_parameters():
        assert parameter.grad is not None, f"{called} takes no part"
        assert bool(parameter.grad.isfinite().all()), called


def test_most_schemes_run():
    assert {name for _, _, refused in MODELS.values() for name in refused} <= set(catalogue())
    assert len(catalogue()) - len(OF_OTHERS | CELLS) > 45


def test_a_scheme_changes_what_a_model_says():
    config = small_vit()
    x, said = torch.randn(2, 1, 16, 24), {}
    for name in ("NoPE", "GridPE", "GridComplex", "AxialRoPE", "SwinBias", "PEG", "Sinusoid", "SCPE", "ALiBi"):
        torch.manual_seed(0)
        net = VisionTransformer(config, at_sites(Specification(name), config.sites))
        with torch.no_grad():
            for layer in net.stages[0].schemes:
                for parameter in layer.parameters():
                    parameter.normal_()
        said[name] = net(x).detach()
    apart = [(said[a] - said[b]).abs().max().item() for a in said for b in said if a < b]
    assert min(apart) > 1e-4


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("SCPE", {"project": None}, r"SCPE makes rows of width 3 and the model adds them to tokens of width 64"),
        ("GridRotate(head_dim=16)", {}, r"GridRotate acts on heads of width 16 and the model's have 32. Build it for"),
        ("Sinusoid(axes=3, dim=66)", {}, r"Sinusoid here reads 3 axes per position; these positions have 2"),
        ("PEG", {"view": "counted"}, r"PEG looks at neighbors on a full grid of 2 axes; these positions have latt"),
        ("ALiBi(heads=3)", {}, r"this ALiBi is built for 3 heads and meets 2"),
    ],
)
def test_what_does_not_fit_is_said_in_a_sentence(name, options, sentence):
    config = vit("quick", image=(16, 24), channels=1, classes=3, options=Options(**({"project": ()} | options)))

    def run() -> None:
        VisionTransformer(config, at_sites(parse(name), config.sites))(torch.randn(1, 1, 16, 24))

    with pytest.raises(ValueError, match=sentence):
        run()
