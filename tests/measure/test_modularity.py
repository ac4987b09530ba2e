"""Modularity, segregation and modules found, against networkx, loops over the definitions, and planted modules."""

import networkx
import numpy as np
import pytest
import torch

from posenc.measure.distances import token_distances
from posenc.measure.modularity import (
    adjusted_rand,
    detect_modules,
    modularity,
    module_numbers,
    pair_auc,
    segregation,
    similarity,
)

MODULES = ["b", "a", "b", "c", "a", "c", "c", "b"]


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def weights(signed: bool = False, seed: int = 0) -> torch.Tensor:
    w = normal(8, 8, seed=seed)
    w = w + w.T if signed else (w + w.T).abs()
    return w.fill_diagonal_(0)


def planted(sizes: tuple[int, ...], spread: float, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """A table whose rows lie around their module's centre, and the modules, both in one random order."""
    modules = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    table = normal(len(sizes), 10, seed=seed)[modules] + spread * normal(len(modules), 10, seed=seed + 1)
    order = torch.randperm(len(modules), generator=torch.Generator().manual_seed(seed))
    return table[order], modules[order]


def communities(modules) -> list[set[int]]:
    return [{n for n, own in enumerate(modules) if own == module} for module in sorted(set(modules))]


# given modules -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_modularity_is_networkx_s(seed) -> None:
    w = weights(seed=seed)
    graph = networkx.from_numpy_array(w.numpy())
    expected = networkx.community.modularity(graph, communities(MODULES), weight="weight")
    assert abs(modularity(w, MODULES) - expected) < 1e-12
    assert abs(modularity(7.5 * w, module_numbers(MODULES)) - expected) < 1e-12
    assert abs(modularity(w, np.array(MODULES), signed=True) - expected) < 1e-12


def test_modularity_with_a_diagonal_is_networkx_s_with_half_the_loops() -> None:
    w = weights() + torch.diag(normal(8).abs())  # a loop counts twice in a degree there, and once in the sum here
    halved = (w - torch.diag(w.diagonal() / 2)).numpy()
    expected = networkx.community.modularity(networkx.from_numpy_array(halved), communities(MODULES), weight="weight")
    total, k, m = float(w.sum()), w.sum(1), module_numbers(MODULES)
    by_hand = sum(float(w[i, j] - k[i] * k[j] / total) / total for i in range(8) for j in range(8) if m[i] == m[j])
    assert modularity(w, MODULES) == pytest.approx(by_hand, abs=1e-12)
    assert expected == pytest.approx(by_hand, abs=1e-12)


def test_signed_modularity_is_its_definition() -> None:
    w, m = weights(signed=True), module_numbers(MODULES)
    plus, minus = w.clamp(min=0), -w.clamp(max=0)
    by_hand = 0.0
    for i in range(8):
        for j in range(8):
            if m[i] == m[j]:
                gain = plus[i, j] - plus[i].sum() * plus[j].sum() / plus.sum()
                loss = minus[i, j] - minus[i].sum() * minus[j].sum() / minus.sum()
                by_hand += float(gain - loss) / float(w.abs().sum())
    assert modularity(w, MODULES, signed=True) == pytest.approx(by_hand, abs=1e-12)
    blocks = torch.where(m[:, None] == m, 1.0, -1.0)
    assert modularity(blocks, MODULES, signed=True) > 0.4
    assert modularity(-blocks, MODULES, signed=True) < -0.4


def test_modularity_of_blocks_of_a_constant_and_of_one_module() -> None:
    same = (module_numbers(MODULES)[:, None] == module_numbers(MODULES)).double()
    assert modularity(same, MODULES) == pytest.approx(1 - (9 * 9 + 9 * 9 + 4 * 4) / 22**2)
    assert modularity(torch.ones(8, 8), MODULES) == pytest.approx(0, abs=1e-12)
    assert modularity(weights(), ["a"] * 8) == pytest.approx(0, abs=1e-12)


def test_segregation_is_its_definition_and_leaves_single_tokens_out() -> None:
    w, modules = weights() + 0.1, ["a", "a", "a", "b", "b", "b", "b", "c"]
    shares = []
    for module in "ab":
        own = [n for n in range(8) if modules[n] == module]
        inside = np.mean([float(w[i, j]) for i in own for j in own if i != j])
        outside = np.mean([float(w[i, j]) for i in own for j in range(8) if modules[j] != module])
        shares.append((inside - outside) / inside)
    assert segregation(w, modules) == pytest.approx(np.mean(shares))
    assert segregation(w + torch.diag(normal(8).abs()), modules) == pytest.approx(np.mean(shares))
    same = (module_numbers(MODULES)[:, None] == module_numbers(MODULES)).double()
    assert segregation(same, MODULES) == 1
    assert segregation(torch.ones(8, 8), MODULES) == 0


def test_similarity_and_its_literal_reading() -> None:
    d = token_distances(normal(15, 4))
    off = ~torch.eye(15, dtype=torch.bool)
    w, literal = similarity(d), similarity(d, diagonal=True)
    torch.testing.assert_close(w[off], 1 - (d[off] - d[off].min()) / (d[off].max() - d[off].min()))
    assert bool((w.diagonal() == 0).all())
    torch.testing.assert_close(literal, 1 - d / d.max())
    modules = [n // 5 for n in range(15)]
    drawn = [token_distances(normal(15, 32, seed=seed)) for seed in range(30)]
    clean = np.mean([modularity(similarity(each), modules) for each in drawn])
    to_the_letter = np.mean([modularity(similarity(each, diagonal=True), modules) for each in drawn])
    assert clean == pytest.approx(-0.05, abs=0.02)  # pure noise
    assert to_the_letter == pytest.approx(0.12, abs=0.02)


def test_pair_auc_counts_pairs() -> None:
    d = token_distances(normal(8, 3).round())  # with ties
    m, wins = module_numbers(MODULES), []
    pairs = [(i, j) for i in range(8) for j in range(i)]
    for i, j in pairs:
        for k, l in pairs:  # noqa: E741
            if m[i] == m[j] and m[k] != m[l]:
                wins.append((d[i, j] < d[k, l]) + 0.5 * (d[i, j] == d[k, l]))
    assert pair_auc(d, MODULES) == pytest.approx(float(np.mean(wins)))
    assert pair_auc(torch.where(m[:, None] == m, 1.0, 2.0), MODULES) == 1
    assert pair_auc(torch.ones(8, 8), MODULES) == 0.5


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: modularity(weights(signed=True), MODULES), r"weights of at least 0; the smallest is -\d.*signed=True"),
        (lambda: modularity(torch.zeros(8, 8), MODULES), "not all 0"),
        (lambda: modularity(weights().triu(), MODULES), "differ from their transpose"),
        (lambda: modularity(weights()[:4], MODULES), r"\(N, N\); got \(4, 8\)"),
        (lambda: modularity(weights() * torch.nan, MODULES), "Did training diverge"),
        (lambda: modularity(weights(), MODULES[:7]), "each of 8 tokens belongs to one module; got 7"),
        (lambda: segregation(weights(signed=True), MODULES), "segregation needs weights of at least 0"),
        (lambda: segregation(weights(), ["a"] * 8), r"two modules or more.*got \[8\]"),
        (lambda: segregation(weights(), list("abcdefgh")), r"one of them with two tokens or more"),
        (lambda: segregation(1 - torch.eye(2).repeat_interleave(4, 0).repeat_interleave(4, 1), [0] * 4 + [1] * 4),
         "divides by the mean weight inside each module"),
        (lambda: pair_auc(weights(), list("abcdefgh")), "of 28 pairs 0 are alike"),
        (lambda: similarity(torch.ones(4, 4).fill_diagonal_(0)), "equally far from each other"),
        (lambda: adjusted_rand([0, 1], [0, 1, 1]), "each of 2 tokens belongs to one module; got 3"),
        (lambda: adjusted_rand([0], [0]), "partitions agree on pairs of tokens; got 1 of them"),
        (lambda: detect_modules(weights(), neighbors=8), "8 tokens have 1 to 7 neighbors each; got neighbors=8"),
    ],
)  # fmt: skip
def test_what_cannot_be_measured_is_refused(call, told) -> None:
    with pytest.raises(ValueError, match=told):
        call()


# modules that are found ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(6, 6, 6, 6), (20, 9, 14, 30, 12)])
def test_planted_modules_are_found(sizes) -> None:
    table, modules = planted(sizes, 0.2)
    found = detect_modules(token_distances(table))
    assert adjusted_rand(found, modules) > 0.97
    assert torch.bincount(found).tolist()[0] == max(sizes)
    assert torch.equal(found, detect_modules(token_distances(table)))
    few = detect_modules(token_distances(table), neighbors=1)
    assert int(few.max()) + 1 > len(sizes)
    noise = [
        adjusted_rand(detect_modules(token_distances(normal(len(modules), 10, seed=s))), modules) for s in range(5)
    ]
    assert abs(np.mean(noise)) < 0.1


@pytest.mark.full
def test_small_modules_are_kept_apart_where_all_similarities_at_once_merge_them() -> None:
    table, modules = planted((6, 54, 39, 56, 23, 23, 50, 15, 77, 7, 4, 6), 0.3)
    distances = token_distances(table)
    dense = networkx.from_numpy_array(similarity(distances).numpy())
    merged = torch.empty_like(modules)
    for number, part in enumerate(networkx.community.louvain_communities(dense, seed=0)):
        merged[list(part)] = number
    assert adjusted_rand(detect_modules(distances, tries=2), modules) > 0.9 > 0.3 + adjusted_rand(merged, modules)


def test_tokens_that_nobody_joins_are_modules_of_their_own() -> None:
    away = torch.tensor([[0.0], [1.0], [1.9], [2.7], [50.0]])
    assert detect_modules(token_distances(away), neighbors=1).tolist() == [1, 2, 0, 0, 3]


def test_adjusted_rand_is_its_definition_over_pairs() -> None:
    a, b = [0, 0, 1, 1, 2, 2, 2, 0], ["x", "x", "y", "x", "z", "z", "x", "y"]
    pairs = [(a[i] == a[j], b[i] == b[j]) for i in range(8) for j in range(i)]
    both, one, other = (sum(each) for each in zip(*[(p and q, p, q) for p, q in pairs], strict=True))
    expected = one * other / len(pairs)
    assert adjusted_rand(a, b) == pytest.approx((both - expected) / ((one + other) / 2 - expected))
    assert adjusted_rand(a, [5, 5, 3, 3, 9, 9, 9, 5]) == 1
    assert adjusted_rand(range(8), range(8)) == adjusted_rand([0] * 8, [1] * 8) == 1
    assert adjusted_rand(range(8), [0] * 8) == 0
    chance = torch.Generator().manual_seed(0)
    drawn = [adjusted_rand(MODULES, torch.randperm(8, generator=chance) // 3) for _ in range(300)]
    assert abs(np.mean(drawn)) < 0.05


def test_equal_distances_have_one_module() -> None:
    assert detect_modules(torch.ones(9, 9) - torch.eye(9)).tolist() == [0] * 9


def test_modularity_has_no_unit() -> None:
    for size in (1e-200, 1e200):
        assert modularity(weights() * size, MODULES) == pytest.approx(modularity(weights(), MODULES), rel=1e-12)


def test_modules_may_be_any_tensor() -> None:
    for modules in (torch.tensor([2.0, 1, 2], requires_grad=True), torch.tensor([2.0, 1, 2], dtype=torch.bfloat16)):
        assert module_numbers(modules).tolist() == [1, 0, 1]
