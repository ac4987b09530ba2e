"""Query heads that share key heads: products are those with every key head repeated."""

import pytest
import torch

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
