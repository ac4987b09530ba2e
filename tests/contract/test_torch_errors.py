"""Errors of torch inside a check are explained, with the line that fixes them."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn
from typing_extensions import override

from posenc.contract import check
from posenc.kernels.pairs import Pairs
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme, per_head

pytestmark = pytest.mark.bare

CLAIMS = {"translation": "exact", "isometric": True, "range": None, "axes": 1, "sharing": "head", "cacheable": True}


class Slopes(Scheme):
    """A bias with one learned slope per head."""

    examples = ({"heads": 4},)
    bias_reads = frozenset()

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(heads))
        self.reset_parameters()
        self.claims = Claims(**CLAIMS, learned=True, sites=frozenset({"bias"}))  # pyright: ignore[reportArgumentType]

    def reset_parameters(self) -> None:
        with torch.no_grad():
            self.table.copy_(torch.linspace(0.5, 1, len(self.table)))

    @override
    def prepare(self, pos: Positions) -> Positions:
        return self._take(pos)

    @override
    def relate(self, where_q, where_k):
        return Pairs(where_q, where_k)

    def slopes(self, q, pair):
        return per_head(self.table, q, "Slopes", dim=-1)[:, None, None]

    @override
    def bias(self, q, k, kept, pair, attn_mask):
        return pair.neutral(-self.slopes(q, pair) * pair.far())

    @override
    def define_bias(self, at):
        return -self.table[at.head.among(len(self.table))] * (at.k_pos[at.j, 0] - at.q_pos[at.i, 0]).abs()


def table_alone(self, q, pair):
    return self.table[:, None, None]


def real_index(self, q, pair):
    return self.table[pair.distance()]


def beyond_the_table(self, q, pair):
    return self.table[pair.distance().abs().long()]


def single_precision(self, q, pair):
    return (torch.eye(4) @ self.table)[:, None, None]


def six_tokens(self, q, pair):
    return self.table[:, None, None] * pair.far().view(6, 6)


def without_gradient(self, q, pair):
    return torch.tensor(self.table.numpy())[:, None, None]


def largest_distance(self, q, pair):
    return self.table[:, None, None] / pair.far().max()


def without_axes_of_pairs(self, q, pair):
    return per_head(self.table, q, "Slopes", dim=-1)[:, None]


def letters(self, q, pair):
    return torch.einsum("h,ij->hij", per_head(self.table, q, "Slopes", dim=-1), 1 + 0 * pair.far())


def product(self, q, pair):
    return per_head(self.table, q, "Slopes", dim=-1) @ pair.far()


def condition(self, q, pair):
    return self.table[:, None, None] if pair.far() > 1 else self.table.mean()


def positions_as_a_tensor(self, q, pair):
    return self.table[:, None, None] * (pair.q.coords - pair.k)


def another_device(self, q, pair):
    return per_head(self.table, q, "Slopes", dim=-1)[:, None, None] * torch.ones(1, device="meta")


@pytest.mark.parametrize(
    ("slopes", "sentence"),
    [
        (
            without_axes_of_pairs,
            r"line \d+\)\. `bias` returns \(H, Q, K\) .* two axes behind them: slopes\[:, None, None\]",
        ),
        (letters, r"line \d+\)\. Positions that differ by sample add axes in front"),
        (product, r"line \d+\)\. `@` sums over the last axis"),
        (condition, r"line \d+\)\. A tensor holds the values of all tokens: .* torch\.where"),
        (positions_as_a_tensor, r"line \d+\)\. Positions are no tensor: their coordinates are pos\.coords"),
        pytest.param(another_device, r"Make tensors on the device of the input", marks=pytest.mark.full),
        (table_alone, r"attends with 2h heads, here 8, .*: per_head\(self\.table, q, 'Slopes', dim=-1\)"),
        (real_index, r"line \d+\)\. Positions are real numbers.* \.long\(\)"),
        (beyond_the_table, r"claims any position, .* Claim the `range` that the table covers"),
        (single_precision, r"float64, float32 and bfloat16: .* x\.dtype"),
        (six_tokens, r"varies the numbers of samples and tokens: .* pos\.coords\.shape"),
        (without_gradient, r"Gradients flow through positions: .* without \.numpy\(\)"),
        (largest_distance, r"also passes zero tokens"),
    ],
)
def test_an_error_of_torch_names_its_cause_and_the_fix(monkeypatch, slopes, sentence):
    monkeypatch.setattr(Slopes, "slopes", slopes)
    troubles = [failure.trouble for failure in check(Slopes).failures]
    assert any(re.search(sentence, trouble) for trouble in troubles), troubles


def test_the_advice_on_heads_mends_the_scheme():
    assert check(Slopes).ok


def test_other_errors_stay_as_they_are(monkeypatch):
    def broken(self, q, pair):
        raise RuntimeError("something else")

    monkeypatch.setattr(Slopes, "slopes", broken)
    (trouble,) = {failure.trouble for failure in check(Slopes).failures}
    assert re.fullmatch(r"RuntimeError: something else \(test_torch_errors\.py, line \d+\)", trouble)


def no_result(self, q, k, kept, pair, attn_mask):
    pair.neutral(-self.slopes(q, pair) * pair.far())


def without_heads(self, q, k, kept, pair, attn_mask):
    return pair.neutral(-self.slopes(q, pair).mean() * pair.far())


def too_few_arguments(self, q, k, pair):
    return pair.neutral(-self.slopes(q, pair) * pair.far())


@pytest.mark.parametrize(
    ("bias", "sentence"),
    [
        (no_result, r"differs from the scalar definition .* `bias` returns None: end it with `return`\."),
        (without_heads, r"`bias` returns the shape \(6, 6\); \(H, Q, K\) is \(8, 6, 6\) here\."),
        (too_few_arguments, r"with these arguments: def bias\(self, q, k, kept, pair, attn_mask\)\."),
    ],
)
def test_a_hook_of_another_form_is_described(monkeypatch, bias, sentence):
    bias.__qualname__ = "Slopes.bias"
    monkeypatch.setattr(Slopes, "bias", bias)
    first = check(Slopes, family="definition").next
    assert first is not None
    assert re.search(sentence, first.trouble), first.trouble


def test_an_embedding_without_a_width_names_the_missing_property():
    class Rows(Scheme):
        """Rows of ones."""

        examples = ({},)

        def __init__(self) -> None:
            super().__init__()
            claims = CLAIMS | {"sharing": "model", "axes": None}
            self.claims = Claims(**claims, learned=False, sites=frozenset({"embed"}))  # pyright: ignore[reportArgumentType]

        @override
        def prepare(self, pos: Positions) -> torch.Tensor:
            return torch.ones(*pos.coords.shape[:-1], 4, dtype=pos.table_dtype)

        @override
        def define_embed(self, p):
            return torch.ones(4, dtype=p.dtype)

    first = check(Rows, family="definition").next
    assert first is not None
    assert "Write its property `out_dim`: return self.dim." in first.trouble
