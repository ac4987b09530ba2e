"""Size of added positions beside that of the tokens: measured where they are added, without using up random numbers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import torch
from torch import Tensor

from posenc.lookup.scheme_text import parse
from posenc.models.encoder import Encoder, EncoderConfig
from posenc.models.language import LanguageConfig, LanguageModel
from posenc.models.masked_encoder import MaskedEncoder
from posenc.models.point_cloud import PointClassifier, PointsConfig
from posenc.models.sites import at_sites
from posenc.models.vision import VisionConfig, VisionTransformer
from posenc.models.vision_stage import Options, StageConfig
from posenc.positions import Positions, sequence
from posenc.scheme import Scheme
from posenc.schemes.nope import NoPE
from posenc.schemes.scaled import Scaled
from posenc.schemes.sinusoid import Sinusoid

DIM, N = 12, 5
ENCODER = EncoderConfig(channels=3, classes=2, dim=DIM, depth=2, hidden=16, heads=2)
LANGUAGE = LanguageConfig(vocabulary=8, dim=DIM, depth=1, heads=2, key_heads=2, hidden=16)


def rms(x: Tensor) -> float:
    return float(x.detach().double().square().mean().sqrt())


def scale_of(kind: str, scheme: Scheme) -> tuple[float | None, float]:
    """The measured ratio of a model, and the root mean square of its tokens."""
    torch.manual_seed(0)
    if kind == "encoder":
        model: Any = Encoder(ENCODER, lambda layer: scheme)
        x = torch.randn(2, N, 3)
        return model.embedding_scale(x, sequence(N)), rms(model.tokens(x))
    if kind == "masked":
        model = MaskedEncoder(msgspec.structs.replace(ENCODER, classes=3), lambda layer: scheme)
        x, hidden = torch.randn(2, N, 3), torch.tensor([[1], [2]])
        return model.embedding_scale(x, sequence(N), hidden), rms(model._masked_tokens(x, hidden))
    model = LanguageModel(LANGUAGE, lambda layer: scheme)
    tokens = torch.arange(N)[None]
    return model.embedding_scale(tokens), rms(model.tokens(tokens) * DIM**0.5)


@pytest.mark.parametrize("kind", ["encoder", "masked", "language"])
def test_the_ratio_of_rows_to_tokens(kind: str) -> None:
    rows = rms(Sinusoid(DIM).embed(Sinusoid(DIM).prepare(sequence(N))))
    before = torch.random.get_rng_state()
    scale, tokens = scale_of(kind, Sinusoid(DIM))
    assert scale == pytest.approx(rows / tokens)
    assert scale_of(kind, Scaled(Sinusoid(DIM), 0.02))[0] == pytest.approx(0.02 * rows / tokens)
    assert scale_of(kind, NoPE())[0] is None
    torch.random.set_rng_state(before)


def test_measuring_uses_up_no_random_numbers() -> None:
    torch.manual_seed(0)
    model = Encoder(ENCODER, lambda layer: Sinusoid(DIM))
    state = torch.random.get_rng_state()
    model.embedding_scale(torch.zeros(1, N, 3), sequence(N))
    assert torch.equal(torch.random.get_rng_state(), state)


def test_of_a_vision_transformer_the_patches_count_and_the_table_and_the_rows_are_added() -> None:
    stage = StageConfig(dim=DIM, depth=1, heads=2, hidden=16, patch=4)
    image = torch.randn(2, 3, 8, 8)

    def scale(text: str, **options: Any) -> tuple[float | None, float]:
        torch.manual_seed(0)
        config = VisionConfig(image=(8, 8), classes=2, stages=(stage,), options=Options(**options))
        model = VisionTransformer(config, at_sites(parse(text), config.sites))
        return model.embedding_scale(image), rms(model._stages[0]._tokens(image)[:, 1:])

    ratio, tokens = scale("Sinusoid(axes=2)")
    assert ratio == pytest.approx(0.5**0.5 / tokens)  # half of the squares of sines and cosines
    ratio, tokens = scale("Learned(sigma=3.0)")
    assert 2 < ratio * tokens < 4
    assert scale("NoPE")[0] is None
    assert 0 < scale("NoPE", tables=True)[0] < 0.2


def test_of_points_the_projected_rows_count() -> None:
    config = PointsConfig(channels=3, classes=2, dim=DIM, depth=1, heads=2, hidden=16)
    x, pos = torch.randn(2, N, 3), Positions(torch.randn(2, N, 3))
    model = PointClassifier(config, lambda layer: Sinusoid(6, axes=3))
    rows = model.rows(Sinusoid(6, axes=3).embed(Sinusoid(6, axes=3).prepare(pos)))
    assert model.embedding_scale(x, pos) == pytest.approx(rms(rows) / rms(model.tokens(x)))
    assert PointClassifier(config, lambda layer: NoPE()).embedding_scale(x, pos) is None
