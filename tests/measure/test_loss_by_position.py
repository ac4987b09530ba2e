"""Loss by position, against the loss of each token computed by hand."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from posenc import measure
from posenc.measure import loss_by_position

TOKENS = torch.arange(60).view(5, 12) * 7 % 11


class Model(nn.Module):
    def __init__(self, wrap):
        super().__init__()
        torch.manual_seed(0)
        self.table, self.drop, self.wrap = nn.Embedding(11, 11), nn.Dropout(0.5), wrap

    def forward(self, tokens):
        return self.wrap(self.drop(self.table(tokens)))


@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: SimpleNamespace(logits=x)], ids=["tensor", "logits"])
@pytest.mark.parametrize("batch", [1, 2, 8])
def test_each_position_is_the_mean_over_texts(wrap, batch):
    model = Model(wrap).train()
    found = loss_by_position(model, TOKENS, batch=batch)
    log = model.table.weight.detach().double().log_softmax(-1)
    for p in range(11):
        wanted = -sum(log[text[p], text[p + 1]] for text in TOKENS) / 5
        torch.testing.assert_close(found[p], wanted, atol=1e-6, rtol=0)
    assert (model.training, found.dtype, tuple(found.shape)) == (True, torch.float64, (11,))


WRONG_TYPE = pytest.mark.compile  # which the run-time check of types refuses first


@pytest.mark.parametrize(
    ("model", "tokens", "options", "sentence"),
    [
        pytest.param(
            nn.Embedding(11, 11),
            TOKENS.float(),
            {},
            r"whole numbers of shape \(B, N\).* got torch\.float32 of shape",
            marks=WRONG_TYPE,
        ),
        pytest.param(nn.Embedding(11, 11), TOKENS[0], {}, r"got torch\.int64 of shape \(12,\)", marks=WRONG_TYPE),
        (nn.Embedding(11, 11), TOKENS[:, :1], {}, r"with N of at least 2"),
        (nn.Embedding(11, 11), TOKENS, {"batch": 0}, "`batch` is a number of texts, at least 1; got 0"),
        (
            Model(lambda x: x.mean(1)),
            TOKENS,
            {},
            r"returns logits of each token, \(5, 12, 'vocabulary'\).* got \(5, 11\)",
        ),
        (Model(lambda x: {"x": x}), TOKENS, {}, r"got dict"),
    ],
)
def test_what_has_no_loss_by_position(model, tokens, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        loss_by_position(model, tokens, **options)


def test_an_unknown_measurement_is_named():
    with pytest.raises(AttributeError, match=r"posenc\.measure has no 'loss_by_weekday'"):
        measure.loss_by_weekday  # noqa: B018  # pyright: ignore


def test_numbers_that_mark_ignored_tokens_are_refused() -> None:
    """A target of -100 counted as a loss of 0."""
    with pytest.raises(ValueError, match="numbers from 0; got -100"):
        loss_by_position(nn.Embedding(5, 5), torch.tensor([[1, 2, -100, -100]]))


def test_a_model_in_float64_is_measured_in_float64() -> None:
    model, tokens = nn.Embedding(5, 5, dtype=torch.float64), torch.tensor([[1, 2, 3]])
    expected = nn.functional.cross_entropy(model(tokens)[0, :-1], tokens[0, 1:], reduction="none").detach()
    assert torch.equal(loss_by_position(model, tokens), expected)
