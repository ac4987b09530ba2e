"""Options at the end of what is allowed: the last value that is accepted, and the first that is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import posenc
from posenc import frequencies
from posenc.kernels import grid_levels, harmonics, wave_vectors
from posenc.kernels.domain import make_domain
from posenc.kernels.simplex import wave_frequencies
from posenc.schemes.alibi import released_slopes

THETA = torch.ones(2, dtype=torch.float64)

REFUSED = {
    "ALiBi of a slope of 0": ("slopes", lambda: posenc.ALiBi(2, slopes=[0.5, 0.0])),
    "an attention factor of 0": ("attention factor multiplies", lambda: frequencies.Frequencies(THETA, 0.0)),
    "Coordinates of scale 0": ("`scale` must be positive", lambda: posenc.Coordinates(scale=0.0)),
    "FIRE without a head": ("heads=0", lambda: posenc.FIRE(0)),
    "FourierFeatures of given frequencies on two axes": (
        "leave `axes`",
        lambda: posenc.FourierFeatures(4, 2, frequencies=[1.0, 2.0]),
    ),
    "Fourier features of a negative sigma": ("sigma", lambda: posenc.FourierFeatures(4, sigma=-1.0)),
    "Fourier features of an infinite sigma": ("sigma", lambda: posenc.FourierFeatures(4, sigma=math.inf)),
    "Fourier features that leave one axis fewer": (
        "a multiple of 4; got 6",
        lambda: posenc.FourierFeatures(6, 2, directions="positional", sigma=4.0),
    ),
    "GraphDistance of -1 types of edges": ("edge_types >= 0", lambda: posenc.GraphDistance(2, edge_types=-1)),
    "LearnableFourier of three features": ("features", lambda: posenc.LearnableFourier(8, features=3)),
    "GridPE without an axis": ("axes=0", lambda: posenc.GridPE(12, 0)),
    "GridPE without a head": ("heads=0", lambda: posenc.GridPE(12, heads=0)),
    "waves without an axis": ("at least one axis", lambda: wave_frequencies("GridDeep", 0, 14.0, None, False)),
    "KPlanes of one resolution that is no list": ("a resolution for each scale", lambda: posenc.KPlanes(2, 64)),
    "KPlanes of a word": ("a resolution for each scale", lambda: posenc.KPlanes(2, "64")),
    "KERPLELog without an axis": ("at least one axis", lambda: posenc.KERPLELog(2, axes=0)),
    "LearnableFourier of gamma 0": ("gamma > 0; got 0", lambda: posenc.LearnableFourier(8, gamma=0.0)),
    "LearnableFourier of a negative gamma": ("gamma > 0; got -1", lambda: posenc.LearnableFourier(8, gamma=-1.0)),
    "LearnableFourier of an infinite gamma": ("gamma > 0; got inf", lambda: posenc.LearnableFourier(8, gamma=math.inf)),
    "PaTH without a tap": ("kernel=0", lambda: posenc.PaTH(8, 4, 2, kernel=0)),
    "PermutohedralGrid of an infinite scale": ("scale", lambda: posenc.PermutohedralGrid(2, scales=(math.inf,))),
    "a random table of width 0": ("dim=0", lambda: posenc.Random(0, 8)),
    "RoPE of infinite frequencies": ("must be finite", lambda: posenc.RoPE(4, frequencies=[1.0, math.inf])),
    "SCShear on one point": ("n=1", lambda: posenc.SCShear(1)),
    "SCShear of a negative kappa": ("kappa=-0.5", lambda: posenc.SCShear(4, kappa=-0.5)),
    "SelectiveRoPE without a tap": ("kernel=0", lambda: posenc.SelectiveRoPE(8, 4, 2, kernel=0)),
    "Sinusoid of width 0": ("a multiple of 2; got 0", lambda: posenc.Sinusoid(0)),
    "Sinusoid that leaves one axis fewer": ("a multiple of 4; got 6", lambda: posenc.Sinusoid(6, axes=2)),
    "spheres without a scale": ("scales=0", lambda: harmonics.check_scales("SphereC", 0, 0.1, 1.0)),
    "SPE without a feature": ("features=0", lambda: posenc.SPE(8, 2, features=0)),
    "STRING without a pair for each axis": ("head_dim=2", lambda: posenc.STRING(2, 1, axes=2)),
    "SwinBias without a head": ("heads=0", lambda: posenc.SwinBias(0, (3, 3))),
    "T5Bias that ends where its exact buckets end": (
        "beyond the 8 exact",
        lambda: posenc.T5Bias(2, buckets=32, max_distance=8),
    ),
    "2^31 vertices of tiny-cuda-nn": ("more than 2.31 vertices", lambda: grid_levels.tcnn_growth(2, 2.0, 31)),
    "XPos without growth": ("above 0", lambda: posenc.XPos(8, extent=64, gamma=0.0)),
    "XPos that grows past float16": (
        "scale_base=1250 or more",
        lambda: posenc.XPos(8, extent=10_000, scale_base=1249.0),
    ),
    "amplitudes of no direction": ("count >= 1", lambda: wave_vectors.power_law(0, 1.0)),
    "a grid of an infinite span": ("positive and finite; got inf", lambda: posenc.grid(2, 3, span=math.inf)),
    "a sequence of two and a half tokens": ("a number of tokens or a tensor", lambda: posenc.sequence(2.5)),
    "a box of four values": ("a tuple of these values", lambda: make_domain((0, 1, "clamp", "wrap"), 1)),
    "a box that ends where it begins": ("low < high", lambda: make_domain((1, 1), 1)),
    "an infinite box": ("low < high", lambda: make_domain((0, math.inf), 1)),
}
ACCEPTED = {
    "a span of two frequencies": lambda: frequencies.from_span(2, shortest=1.0, longest=100.0),
    "ALiBi of one head": lambda: posenc.ALiBi(1, slopes=[0.5]),
    "released slopes of one head": lambda: released_slopes(1),
    "AxialRoPE of one pair": lambda: posenc.AxialRoPE(2, axes=1),
    "DAPE of one head": lambda: posenc.DAPE(posenc.KERPLELog(1), heads=1, hidden=1),
    "DAPE of one head on a scheme for any number of heads": lambda: posenc.DAPE(posenc.CoPE(4, 5), heads=1),
    "Gaussian features that leave one axis fewer": lambda: posenc.FourierFeatures(6, 2),
    "DenseGrid of one cell": lambda: posenc.DenseGrid(2, 1),
    "GridDeep of one channel": lambda: posenc.GridDeep(1),
    "GridRotate of one pair": lambda: posenc.GridRotate(2),
    "Shaw of one channel": lambda: posenc.Shaw(1, 3),
    "LogCPB of one hidden unit": lambda: posenc.LogCPB(2, (3, 3), hidden=1),
    "MixedRoPE on one axis": lambda: posenc.MixedRoPE(4, 1, axes=1),
    "Random of one row": lambda: posenc.Random(1, 1),
    "Sinusoid of one pair on each axis": lambda: posenc.Sinusoid(4, axes=2),
    "STRING of one pair on each axis": lambda: posenc.STRING(4, 1, axes=2),
    "a sum that takes one position alone": lambda: posenc.Sum([posenc.Learned(4, 1), posenc.RoPE(4)]),
    "T5Bias that ends one later": lambda: posenc.T5Bias(2, buckets=32, max_distance=9),
    "2^30 vertices of tiny-cuda-nn": lambda: grid_levels.tcnn_growth(2, 2.0, 30),
    "XPos that stays inside float16": lambda: posenc.XPos(8, extent=10_000, scale_base=1250.0),
    "a box of three values": lambda: make_domain((0, 1, "clamp"), 1),
}


@pytest.mark.bare
@pytest.mark.parametrize(("words", "make"), REFUSED.values(), ids=REFUSED)
def test_the_first_value_outside_is_refused(words, make):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.bare
def test_a_number_of_numpy_is_a_number_of_tokens():
    assert posenc.sequence(np.int64(3)).count == 3


@pytest.mark.parametrize("make", ACCEPTED.values(), ids=ACCEPTED)
def test_the_last_value_inside_is_accepted(make):
    assert make() is not None
