"""
Encodings in your own attention
===============================

You have an attention layer and want to give it RoPE, ALiBi or Shaw's relative positions. A scheme reads the positions
once, then acts at a few places of the layer. ``attention`` calls all of them, so the scheme is one argument.
"""

# %%
# A layer with grouped heads, whose scheme is an argument:
import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn

from posenc import ALiBi, NoPE, RoPE, Scheme, Shaw, attention, sequence


class Attention(nn.Module):
    """Causal self-attention with a positional encoding."""

    def __init__(self, width: int, heads: int, scheme: Scheme) -> None:
        super().__init__()
        self.heads, self.scheme = heads, scheme
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Attend from each token to itself and the tokens before it: (B, N, width) to the same shape."""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        out = attention(q, k, v, scheme=self.scheme, q_pos=sequence(x.shape[1]), causal=True)
        return self.out(out.transpose(1, 2).flatten(2))


torch.manual_seed(0)
x = torch.randn(2, 10, 64)
for scheme in (RoPE(16), ALiBi(heads=4), Shaw(16, max_distance=8)):
    print(type(scheme).__name__, tuple(Attention(64, 4, scheme)(x).shape))

# %%
# What does each of them change? Let all queries and keys be equal. Without positions every weight is then the same.
# With an encoding, the weights show what it prefers. With the rows of the unit matrix as values, the output is the
# weights.
same, one_hot = torch.ones(1, 4, 64, 16), torch.eye(64).expand(1, 4, 64, 64)
schemes = {
    "no encoding": NoPE(),
    "RoPE": RoPE(16),
    "ALiBi": ALiBi(heads=4),
    "Shaw, untrained": Shaw(16, max_distance=8, values=False),
}
figure, axes = plt.subplots(1, 4, figsize=(11, 3), layout="constrained")
with torch.no_grad():
    for axis, (name, scheme) in zip(axes, schemes.items(), strict=True):
        weights = attention(same, same, one_hot, scheme=scheme, q_pos=sequence(64))
        axis.imshow(weights[0, 1].numpy(), cmap="viridis")
        axis.set(title=name, xlabel="key", ylabel="query")
plt.show()

# %%
# RoPE and ALiBi depend on distances alone: their pictures are constant along each diagonal. ALiBi prefers near keys, at
# a rate that its head fixes. RoPE's waves interfere: equal vectors attend to near positions most. Shaw's table is
# random before training.
#
# Next: caches, padding, packed documents and half precision in "Your own attention"; models of others in "Recipes".
