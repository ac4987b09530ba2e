"""What dense, hash and multi-resolution grids refuse, and what they say of it."""

import pytest
import torch

from posenc.kernels.domain import Box, weight_levels
from posenc.kernels.grid_levels import growth, tcnn_growth
from posenc.positions import Positions
from posenc.schemes.dense_grid import DenseGrid
from posenc.schemes.hash_grid import HashGrid
from posenc.schemes.multires_grid import MultiResolutionGrid


def at(scheme, *coords):
    return scheme.embed(scheme.prepare(Positions(torch.tensor(coords, dtype=torch.float64))))


SENTENCES = [
    (lambda: growth(16, 8, 4), r"1 <= coarsest <= finest.*; got growth\(16, 8, 4\)"),
    (
        lambda: growth(16, 32, 1),
        r"coarsest == finest for one level; got growth\(16, 32, 1\)\. Write growth\(16, 512, 16\)",
    ),
    (lambda: growth(0, 8, 2), r"needs levels >= 1, 1 <= coarsest"),
    (lambda: tcnn_growth(16, 0.5, 4), r"per_level_scale >= 1; got levels=4, base_resolution=16, per_level_scale=0\.5"),
    (lambda: DenseGrid(0, 4), r"at least one axis and one feature; got axes=0, features=2"),
    (lambda: DenseGrid(2, (4, 4, 4)), r"one number, or one for each of 2 axes; got \(4, 4, 4\)"),
    (lambda: DenseGrid(2, 0), r"a resolution is at least 1, and less than 2\^31 - 1; got 0\."),
    (lambda: MultiResolutionGrid(2, (2.5,)), r"a whole number of cells; got 2\.5, 2\.5\. Round it"),
    (lambda: DenseGrid(3, 2048), r"a dense level of resolution 2048, 2048, 2048 has 8602523649 rows\. Use a coarser"),
    (lambda: HashGrid(2, 4, table_size=1000), r"T = 2\^k rows; got table_size=1000\. Use 1024\."),
    (lambda: HashGrid(8, 2, table_size=16), r"the hash has a prime for each of 7 axes; got 8|axes=8"),
    (lambda: MultiResolutionGrid(2, ()), r"at least one resolution; got none\. Write resolutions=growth"),
    (
        lambda: HashGrid(2, 4, table_size=19),
        r"Use 16\. \(tiny-cuda-nn's log2_hashmap_size is the k of table_size=2\*\*k",
    ),
    (lambda: tcnn_growth(16, 1e30, 16), r"16 levels from 16 on, each 1e\+30 times as fine .* more than 2\^31 vertices"),
    (
        lambda: MultiResolutionGrid(2, (4,), convention="tcnn", domain=Box(outside="wrap")),
        r"not a whole number of cells wide, so they cannot be periodic\. Use convention='paper'",
    ),
    (lambda: DenseGrid(2, 4, domain=Box(1, -1)), r"needs finite numbers low < high; got 1 and -1"),
    (lambda: DenseGrid(2, 4, domain=Box((0, 0, 0))), r"a box on 2 axes has .* or 2 of each; got 3, 2 and 2"),
    (
        lambda: at(DenseGrid(2, 4), [0.5, 1.2]),
        r"DenseGrid is defined from 0 to 1 on axis 1; position 1\.2 was asked for\. Give it a box .* 'clamp'\), 'wrap'",
    ),
    (
        lambda: DenseGrid(2, 4, domain=Box((-1, 1), (-1, 1))),
        r"all lows, then all highs: Box\(\(0, -180\), ",
    ),
    (
        lambda: DenseGrid(2, 4, domain=(0, 1, "clamp", 3)),
        r"is a Box\(low, high, outside\), or a tuple of these values",
    ),
    (
        lambda: DenseGrid(1, 4).prepare(Positions(torch.full((1, 1), 1.5, requires_grad=True))),  # and warns of nothing
        r"position 1\.5 was asked for",
    ),
    (lambda: at(DenseGrid(2, 4), [0.5, 1 + 1e-7]), r"position 1\.0000001 was asked for"),
    (
        lambda: at(HashGrid(2, 4, table_size=16), [-0.5, 0]),
        r"HashGrid is defined from 0 to 1 on axis 0; position -0\.5",
    ),
    (lambda: at(DenseGrid(2, 4), [0.5]), r"DenseGrid here reads 2 axes per position; these positions have 1"),
    (
        lambda: MultiResolutionGrid(2, (4, 8)).load_tcnn(torch.zeros(8)),
        r"belong to its own vertices\. Build MultiResolutionGrid\(\.\., convention='tcnn'",
    ),
    (
        lambda: MultiResolutionGrid(2, (4.0, 8.0), convention="tcnn").load_tcnn(torch.zeros(8)),
        r"this grid has 160 parameters; got 8\. n_levels, .* a NetworkWithInputEncoding keeps its network's in front",
    ),
    (
        lambda: (s := MultiResolutionGrid(2, (4, 8))).embed(
            weight_levels(s.prepare(Positions(torch.zeros(1, 2))), torch.ones(3))
        ),
        r"this grid has 2 levels, and a weight for each of them is needed; got shape \(3,\)",
    ),
    (
        lambda: weight_levels(DenseGrid(2, 4).prepare(Positions(torch.zeros(5, 2))), torch.ones(3, 1)),
        r"one per level and point, \(\.\., N, L\); got shape \(3, 1\) for points \(5,\)\. Write coarse_to_fine",
    ),
    (
        lambda: weight_levels(DenseGrid(2, 4).prepare(Positions(torch.zeros(5, 2))), torch.tensor(0.5)),
        r"weights are one per level, shape \(L,\), .* got shape \(\) for points \(5,\)",
    ),
]


@pytest.mark.parametrize(("make", "sentence"), SENTENCES)
def test_bad_input(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.bare  # the shape hook would refuse the words before the sentences do
@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: DenseGrid(2, 4, interpolation="cubic"), r"'nearest', 'linear' or 'smoothstep'; got 'cubic'"),
        (lambda: MultiResolutionGrid(2, (4,), convention="ngp"), r"convention is 'paper' or 'tcnn' .*; got 'ngp'"),
        (lambda: DenseGrid(2, 4, domain=(0, 1, "mirror")), r"'error', 'clamp', 'wrap', 'zero'; got 'mirror'"),
        (
            lambda: DenseGrid(2, 4, domain="clamp"),
            r"or a tuple of these values; got 'clamp'\. For example: \(0, 1, 'clamp'\)\.",
        ),
        (lambda: DenseGrid(2, 4, domain=Box("clamp")), r"needs finite numbers low < high; got clamp and 1\.0"),
        (lambda: HashGrid(2, 4, table_size=1e6), r"T = 2\^k rows; got table_size=1000000\.0\. Use 1048576\."),
        (lambda: MultiResolutionGrid(2, 16), r"one entry per level; got 16\. Write \(16,\) or growth"),
        (
            lambda: MultiResolutionGrid(2, (4.0,), convention="tcnn").load_tcnn([0.0] * 32),
            r"params is a flat tensor, encoding\.params; got list",
        ),
        (
            lambda: weight_levels(torch.zeros(5, 2), torch.ones(2)),
            r"weights are for the levels of a grid .* got Tensor",
        ),
    ],
)
def test_unknown_words(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()
