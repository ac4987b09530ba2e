"""Maps against weights that are known, and models left as they were found."""

from __future__ import annotations

import copy
import math
import warnings

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from torch import nn
from torch.nn import functional

from posenc import Learned, sequence
from posenc.measure.attention_maps import attention_map_similarity, attention_maps
from posenc.measure.evaluation_mode import evaluation_mode
from posenc.models.encoder import Encoder, EncoderConfig

DIM, HEADS, TOKENS = 8, 2, 5


def torch_encoder(*, dropout: float = 0.0, layers: int = 2) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(DIM, HEADS, 12, dropout, batch_first=True)
    model = nn.TransformerEncoder(layer, layers)
    for each in model.layers:  # the layers of a TransformerEncoder start as copies
        for parameter in each.parameters():
            nn.init.normal_(parameter, std=0.4)
    return model


def hooks_of(model: nn.Module) -> int:
    return sum(len(part._forward_hooks) + len(part._forward_pre_hooks) for part in model.modules())


def weights_by_hand(layer: nn.MultiheadAttention, x: torch.Tensor) -> torch.Tensor:
    q, k, _ = functional.linear(x, layer.in_proj_weight, layer.in_proj_bias).chunk(3, -1)
    q, k = (each.unflatten(-1, (HEADS, DIM // HEADS)).transpose(1, 2) for each in (q, k))
    return (q @ k.transpose(-1, -2) / math.sqrt(DIM // HEADS)).softmax(-1)


# capture -----------------------------------------------------------------------------------------------------------


def test_the_maps_of_a_torch_encoder_are_its_softmax() -> None:
    model, x = torch_encoder().eval(), torch.randn(3, TOKENS, DIM)
    maps = attention_maps(model, x)
    assert maps.shape == (2, 3, HEADS, TOKENS, TOKENS)
    assert not maps.requires_grad
    with torch.no_grad():
        torch.testing.assert_close(maps[0], weights_by_hand(model.layers[0].self_attn, x))
        after = model.layers[0](x)
        torch.testing.assert_close(maps[1], weights_by_hand(model.layers[1].self_attn, after))


def test_the_model_is_left_as_it_was() -> None:
    model, x = torch_encoder(dropout=0.5), torch.randn(3, TOKENS, DIM)
    model.layers[1].eval()
    modes = [part.training for part in model.modules()]
    fast = torch.backends.mha.get_fastpath_enabled()
    with torch.no_grad():
        before = copy.deepcopy(model).eval()(x)
    attention_maps(model, x)
    assert [part.training for part in model.modules()] == modes
    assert torch.backends.mha.get_fastpath_enabled() == fast
    assert hooks_of(model) == 0
    with torch.no_grad():
        assert torch.equal(model.eval()(x), before)


class Breaks(nn.Module):
    """Two attentions, and a fault between or after them."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.MultiheadAttention(DIM, HEADS, batch_first=True) for _ in range(2))
        self.after = after

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number, part in enumerate(self.parts, 1):
            x = part(x, x, x)[0]
            if number == self.after:
                raise RuntimeError("broke")
        return x


@pytest.mark.parametrize("after", [1, 2])
def test_no_hook_is_left_after_an_exception(after) -> None:
    model, x = Breaks(after), torch.randn(2, TOKENS, DIM)
    fast = torch.backends.mha.get_fastpath_enabled()
    with pytest.raises(RuntimeError, match="broke"):
        attention_maps(model, x)
    assert hooks_of(model) == 0
    assert model.training
    assert torch.backends.mha.get_fastpath_enabled() == fast
    assert torch.is_grad_enabled()
    model.after = 0
    assert attention_maps(model, x).shape == (2, 2, HEADS, TOKENS, TOKENS)
    found = model(x)
    assert found.requires_grad
    assert found.isfinite().all()


class Asks(nn.Module):
    """Keeps what its attention gives back, asked for in every way."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(DIM, HEADS, batch_first=True)
        self.given: list = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.given = [
            self.attention(x, x, x),
            self.attention(x, x, x, None, False),
            self.attention(x, x, value=x, average_attn_weights=False),
        ]
        return self.given[0][0]


@pytest.mark.parametrize("batched", [True, False])
def test_callers_are_given_what_they_asked_for(batched) -> None:
    model, x = Asks().eval(), torch.randn(3, TOKENS, DIM)
    x = x if batched else x[0]
    with torch.no_grad():
        model(x)
    before = model.given
    maps = attention_maps(model, x)
    assert maps.shape == (3, 3 if batched else 1, HEADS, TOKENS, TOKENS)
    for (y, weights), (y_before, weights_before) in zip(model.given, before, strict=True):
        torch.testing.assert_close(y, y_before)
        assert (weights is None) == (weights_before is None)
        if weights is not None:
            torch.testing.assert_close(weights, weights_before)
    assert model.given[1][1] is None


def test_padded_keys_get_no_weight_on_the_way_round_the_fused_layer() -> None:
    model, x = torch_encoder().eval(), torch.randn(3, TOKENS, DIM)
    padding = torch.zeros(3, TOKENS, dtype=torch.bool)
    padding[1, 3:] = True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that nested tensors, which the fused layer takes, are a prototype
        maps = attention_maps(PaddedBy(model, padding), x)
    assert maps.shape == (2, 3, HEADS, TOKENS, TOKENS)
    assert float(maps[:, 1, :, :, 3:].abs().max()) == 0
    torch.testing.assert_close(maps.sum(-1), torch.ones_like(maps[..., 0]))
    torch.testing.assert_close(maps[:, [0, 2]], attention_maps(model, x)[:, [0, 2]])


class PaddedBy(nn.Module):
    def __init__(self, model: nn.Module, padding: torch.Tensor) -> None:
        super().__init__()
        self.model, self.padding = model, padding

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.model(x, src_key_padding_mask=self.padding)


def test_literal_dropout_measures_in_training_mode() -> None:
    model, x = torch_encoder(dropout=0.5), torch.randn(3, TOKENS, DIM)
    plain = [attention_maps(model, x) for _ in range(2)]
    drawn = [attention_maps(model, x, literal_dropout=True) for _ in range(2)]
    assert torch.equal(*plain)
    assert not torch.equal(*drawn)
    assert (drawn[0] == 0).float().mean() > 0.3
    assert model.training
    model.eval()
    assert not torch.equal(attention_maps(model, x, literal_dropout=True), plain[0])
    assert not model.training


def test_training_mode_leaves_buffers_as_they_were() -> None:
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout())
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    with evaluation_mode(model, training=True):
        assert model[1].training
        model(torch.randn(8, 3) + 5)
        assert not torch.equal(model[0].running_mean, before["0.running_mean"])
    assert all(torch.equal(buffer, before[name]) for name, buffer in model.named_buffers())


def test_our_encoder_is_asked_for_its_own_maps() -> None:
    config = EncoderConfig(channels=4, classes=3, dim=DIM, depth=2, hidden=12, heads=HEADS, encoding_dropout=0.5)
    model = Encoder(config, lambda layer: Learned(DIM, TOKENS))
    x, pos = torch.randn(3, TOKENS, 4), sequence(TOKENS)
    maps = attention_maps(model, x, pos)
    assert model.training
    with torch.no_grad():
        assert torch.equal(maps, model.eval().attention_maps(x, pos))
    assert not maps.requires_grad
    assert not torch.equal(attention_maps(model, x, pos, literal_dropout=True), maps)


class Never(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(DIM, HEADS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


def test_models_without_visible_attention_are_refused_in_a_sentence() -> None:
    with pytest.raises(ValueError, match=r"Linear has no method attention_maps .* Give it attention_maps"):
        attention_maps(nn.Linear(3, 3), torch.randn(2, 3))
    with pytest.raises(ValueError, match=r"Never holds nn\.MultiheadAttention but its forward never called it"):
        attention_maps(Never(), torch.randn(2, 3))
    model = nn.Transformer(DIM, HEADS, 1, 1, 12, batch_first=True)
    with pytest.raises(ValueError, match=r"shapes \(2, 2, 3, 3\) and \(2, 2, 3, 5\) and \(2, 2, 5, 5\)"):
        attention_maps(model, torch.randn(2, 5, DIM), torch.randn(2, 3, DIM))


# agreement ---------------------------------------------------------------------------------------------------------


def random_maps(seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (3 * torch.randn(2, 4, 3, 5, 6, generator=generator)).softmax(-1)


def test_agreement_is_what_scipy_makes_of_each_row_and_map() -> None:
    a, b = random_maps(0), random_maps(1)
    rows = {row["layer"]: row for row in attention_map_similarity(a, b)}
    assert list(rows) == [0, 1, "all"]
    for layer in (0, 1):
        p, q = a[layer].double().numpy(), b[layer].double().numpy()
        distance = jensenshannon(p, q, base=2, axis=-1)
        assert rows[layer]["jsd_distance"] == pytest.approx(distance.mean())
        assert rows[layer]["jsd"] == pytest.approx((distance**2).mean())
        cosines = [
            [np.dot(x.ravel(), y.ravel()) / math.sqrt((x**2).sum() * (y**2).sum()) for x, y in zip(*pair, strict=True)]
            for pair in zip(p, q, strict=True)
        ]
        assert rows[layer]["cosine"] == pytest.approx(np.mean(cosines))
        means = zip(p.mean(0), q.mean(0), strict=True)
        of_means = [np.dot(x.ravel(), y.ravel()) / np.linalg.norm(x) / np.linalg.norm(y) for x, y in means]
        assert rows[layer]["cosine_of_mean"] == pytest.approx(np.mean(of_means))
    for name in ("cosine", "cosine_of_mean", "jsd", "jsd_distance"):
        assert rows["all"][name] == pytest.approx((rows[0][name] + rows[1][name]) / 2)
        assert rows[0][name] != pytest.approx(rows[1][name])


def test_the_same_maps_agree_and_disjoint_ones_do_not() -> None:
    maps = random_maps(0)
    for row in attention_map_similarity(maps, maps):
        assert (row["jsd"], row["jsd_distance"]) == (0, 0)
        assert (row["cosine"], row["cosine_of_mean"]) == pytest.approx((1, 1))
    one = torch.eye(4).expand(1, 2, 1, 4, 4)
    for row in attention_map_similarity(one, one.flip(-1)):
        assert (row["jsd"], row["jsd_distance"], row["cosine"]) == pytest.approx((1, 1, 0))


def test_a_half_shared_row_by_hand() -> None:
    # p = (1, 0), q = (1/2, 1/2): H(3/4, 1/4) - (0 + 1) / 2 = .811278 - .5; cosine 1 / sqrt 2
    p, q = torch.tensor([1.0, 0]).view(1, 1, 1, 1, 2), torch.tensor([0.5, 0.5]).view(1, 1, 1, 1, 2)
    row = attention_map_similarity(p, q)[0]
    assert row["jsd"] == pytest.approx(0.311278, abs=1e-6)
    assert row["cosine"] == pytest.approx(math.sqrt(0.5))


def test_rows_after_dropout_are_scaled_and_rows_without_weight_left_out() -> None:
    a, b = random_maps(0), random_maps(1)
    plain, scaled = (attention_map_similarity(each, b)[-1]["jsd"] for each in (a, 2 * a))
    assert scaled == pytest.approx(plain)
    emptied = a.clone()
    emptied[..., 0, :] = 0
    left, expected = (
        attention_map_similarity(emptied, b)[-1],
        attention_map_similarity(a[..., 1:, :], b[..., 1:, :])[-1],
    )
    assert left["jsd"] == pytest.approx(expected["jsd"])
    assert math.isfinite(left["cosine"])


def test_maps_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(ValueError, match="models of different shapes compared"):
        attention_map_similarity(random_maps(0), random_maps(0)[:1])
    with pytest.raises(ValueError, match=r"each \(layers, B, H, Q, K\)"):
        attention_map_similarity(random_maps(0)[0], random_maps(0)[0])
    with pytest.raises(ValueError, match="after the softmax"):
        attention_map_similarity(random_maps(0) - 0.5, random_maps(0))


def test_maps_of_a_diverged_model_are_refused() -> None:
    maps = torch.rand(1, 2, 1, 3, 3).softmax(-1)
    diverged = maps.clone()
    diverged[0, 0, 0, 0] = math.nan
    for pair in ((maps, diverged), (diverged, maps)):
        with pytest.raises(ValueError, match="Did training diverge"):
            attention_map_similarity(*pair)
    with pytest.raises(ValueError, match="no attention weights to compare"):
        attention_map_similarity(maps[:, :0], maps[:, :0])


class Counting(nn.Module):
    """Puts a new tensor in the place of its buffer in each training step."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steps", torch.zeros(()))

    def forward(self) -> None:
        self.steps = self.steps + 1


def test_a_buffer_that_training_replaces_is_put_back() -> None:
    model = Counting()
    held = model.steps
    with evaluation_mode(model, training=True):
        model()
    assert model.steps is held
    assert float(held) == 0
