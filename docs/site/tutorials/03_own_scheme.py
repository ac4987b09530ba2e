"""
Write a scheme and prove it
===========================

A scheme is a subclass of ``posenc.Scheme`` with three things: what it does (a hook such as ``embed``), what it claims
(``posenc.Claims``), and the formula as a scalar definition. The contract measures every claim, and compares values and
gradients with the formula.
"""

# %%
# Triangle waves instead of sines. The period doubles with each channel; a wave is 1 at 0 and -1 half a period later.
import dataclasses

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from posenc import Claims, Positions, Scheme, check, sequence


class Triangles(Scheme):
    """``e_{p,i} = 1 - 4 |p / T_i - round(p / T_i)|`` with periods ``T_i = 4 * 2^i``."""

    examples = ({"dim": 4}, {"dim": 6})

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.claims = Claims(
            translation="none",  # inner products of two rows depend on more than their distance
            isometric=False,  # rows have different norms
            learned=False,
            range=None,  # any position
            axes=1,
            sites=frozenset({"embed"}),
            sharing="model",
            cacheable=True,
        )

    @property
    def out_dim(self) -> int:
        """Channels of a row."""
        return self.dim

    def prepare(self, pos: Positions) -> Tensor:
        """Rows of the positions, (N, dim); zero for a token without a position."""
        self._take(pos)
        periods = 4.0 * 2.0 ** torch.arange(self.dim, device=pos.coords.device)
        turns = pos.precise() / periods.to(pos.precise().dtype)
        rows = (1 - 4 * (turns - turns.round()).abs()).to(pos.table_dtype)
        return rows if pos.placed is None else rows * pos.placed[..., None]

    def embed(self, where: Tensor) -> Tensor:
        """Rows to add to the tokens."""
        return where

    def define_embed(self, p: Tensor) -> Tensor:
        """The formula for one position."""
        turns = [p[0] / (4 * 2**i) for i in range(self.dim)]
        return torch.stack([1 - 4 * (each - each.round()).abs() for each in turns])


report = check(Triangles)
print(report)


# %%
# Everything that posenc has takes the class now. What happens if it claims too much? This one says that inner products
# depend on distances alone:
class Boastful(Triangles):
    """The same rows with a wrong claim."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.claims = dataclasses.replace(self.claims, translation="exact")


print(check(Boastful))

# %%
# A claim that is too weak fails too: the tables of the site would say less than is true. The rows of 64 positions:
triangles = Triangles(6)
rows = triangles.embed(triangles.prepare(sequence(64)))
figure, axis = plt.subplots(figsize=(8, 2.2), layout="constrained")
image = axis.imshow(rows.T.numpy(), aspect="auto", cmap="RdBu_r", vmin=-1, vmax=1)
axis.set(xlabel="position", ylabel="channel", title="Triangles(6)")
figure.colorbar(image)
plt.show()

# %%
# In a file of its own it has a name for ``posenc check triangles.py`` and ``posenc run latin-squares --schemes
# triangles.py``.
