"""Attention with encodings from content, against the references of flash-linear-attention in plain torch."""

import importlib.util
from pathlib import Path

import pytest
import torch
from torch.nn.functional import conv1d, logsigmoid, pad, silu

from posenc.attention import attention
from posenc.positions import sequence
from posenc.schemes.fox import FoX
from posenc.schemes.path import PaTH
from posenc.schemes.stick_breaking import StickBreaking

pytestmark = pytest.mark.oracles

N, DIM, HEADS, WIDTH = 21, 16, 2, 8


@pytest.fixture
def naive():
    """Import ``naive.py`` of an operator from its file: the package itself imports triton."""
    package = importlib.util.find_spec("fla")
    if package is None or package.origin is None:  # `make test` installs it; another environment need not have it
        pytest.skip("flash-linear-attention is not installed: pip install --no-deps fla-core")
    folder = Path(package.origin).parent / "ops"

    def load(operator):
        spec = importlib.util.spec_from_file_location(operator, folder / operator / "naive.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


def drawn():
    """The block's input, and queries, keys and values ``(B, H, N, D)``."""
    return torch.randn(2, N, DIM), *torch.randn(3, 2, HEADS, N, WIDTH).unbind()


def tokens_first(*rows):
    """``(B, N, H, ..)`` there, ``(B, H, N, ..)`` here."""
    return [each.transpose(1, 2) for each in rows]


def path_directions(scheme, x):
    """``w (B, N, H, D)`` and ``beta (B, N, H)`` as the layer of the library computes them."""
    rows, taps = (x @ scheme.down.T @ scheme.up.T).mT, scheme.taps.flatten(0, 1)[:, None]
    rows = silu(conv1d(pad(rows, (taps.shape[-1] - 1, 0)), taps, groups=len(taps))).mT.unflatten(-1, (HEADS, -1))
    return rows * (rows.square().sum(-1, keepdim=True) + 1e-6).rsqrt(), 2 * (
        x @ scheme.weight.T + scheme.offset
    ).sigmoid()


@pytest.mark.compares("PaTH", "fla-core", "naive_path_attn")
@pytest.mark.parametrize("chunk", [64, 4])
@torch.no_grad()
def test_path(naive, chunk, same):
    x, q, k, v = drawn()
    scheme = PaTH(DIM, WIDTH, HEADS, rank=5)
    for parameter in scheme.parameters():
        parameter.normal_()
    w, beta = path_directions(scheme, x)
    # gates of 0 leave no forget gate; in chunks shorter than the text its Householder products cross chunks
    theirs = naive("path_attn").naive_path_attn(
        *tokens_first(q, k, v), w, beta, torch.zeros(2, N, HEADS), WIDTH**-0.5, chunk_size=chunk
    )
    same(attention(q, k, v, scheme=scheme, q_pos=sequence(N), x=x), theirs.transpose(1, 2))


@pytest.mark.compares("FoX", "fla-core", "naive_forgetting_attn")
def test_fox(naive, same):
    x, q, k, v = drawn()
    scheme = FoX(DIM, HEADS)
    gates = logsigmoid(x @ scheme.weight.T + scheme.offset).detach()
    theirs = naive("forgetting_attn").naive_forgetting_attn(*tokens_first(q, k, v), gates)
    found = attention(q, k, v, scheme=scheme, q_pos=sequence(N), x=x).detach()
    same(found, theirs.transpose(1, 2))


@pytest.mark.compares("StickBreaking", "fla-core", "naive_stickbreaking_attn")
def test_stick_breaking(naive, same):
    _, q, k, v = drawn()
    rows, rest = naive("stickbreaking_attn").naive_stickbreaking_attn(*tokens_first(q, k, v))
    # the rest of the stick goes to the own value here, and to the caller there
    found = attention(q, k, v, scheme=StickBreaking(), q_pos=sequence(N))
    same(found, rows.transpose(1, 2) + rest.transpose(1, 2)[..., None] * v)
