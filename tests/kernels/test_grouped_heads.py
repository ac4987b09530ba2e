"""Query heads that share key heads: products are those with every key head repeated."""

import pytest
import torch
from torch import nn

from posenc.kernels.grouped_heads import grouped_logits, grouped_matmul


@pytest.mark.parametrize("heads", [1, 2, 4])
@pytest.mark.parametrize("queries", [1, 3])
def test_products_with_shared_heads(heads, queries):
    generator = torch.Generator().manual_seed(heads)
    q = torch.randn(2, 4, queries, 6, generator=generator, dtype=torch.float64)
    k = torch.randn(2, heads, 5, 6, generator=generator, dtype=torch.float64)
    wanted = q @ k.repeat_interleave(4 // heads, 1).mT
    torch.testing.assert_close(grouped_matmul(q, k.mT), wanted, atol=1e-12, rtol=0)
    torch.testing.assert_close(grouped_logits(q, k), wanted, atol=1e-12, rtol=0)


class Product(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return grouped_matmul(a, b)


@pytest.mark.bare
def test_export_leaves_the_length_free_where_heads_share_keys():
    """Queries and keys of one length, as in a causal model."""
    length = torch.export.Dim("length", min=2, max=64)
    a, b = torch.randn(2, 4, 5, 5), torch.randn(2, 2, 5, 6)
    whole = torch.export.export(Product(), (a, b), dynamic_shapes=({2: length, 3: length}, {2: length})).module()
    longer, other = torch.randn(2, 4, 8, 8), torch.randn(2, 2, 8, 6)
    torch.testing.assert_close(whole(longer, other), grouped_matmul(longer, other))
