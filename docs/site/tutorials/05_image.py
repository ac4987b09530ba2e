"""
Fit an image with a small network
=================================

A network that maps coordinates to colors learns smooth pictures easily and fine detail slowly. An encoding of the
coordinates changes that (Tancik et al. 2020). This trains the same small network on one image with three encodings.
"""

# %%
# The image: waves whose length shrinks to the right, with an edge. Positions are the pixel centers between 0 and 1.
import itertools

import matplotlib.pyplot as plt
import torch
from torch import nn

from posenc import Coordinates, FourierFeatures, MultiResolutionGrid, Positions, Scheme, grid

SIDE, STEPS = 64, 300
pos = Positions((grid(SIDE, SIDE).coords + 0.5) / SIDE)
row, column = pos.coords.T.float()
image = 0.5 + 0.5 * torch.sin(40 * column**2) * (row > 0.5 + 0.2 * torch.sin(6 * column)).float()


# %%
# A scheme at the site ``embed`` is an ``nn.Module`` with trained parameters or without. ``prepare`` reads the positions
# once, ``embed`` makes the rows.
def fit(scheme: Scheme) -> torch.Tensor:
    """Train a network of width 64 on the image; return what it learned."""
    torch.manual_seed(0)
    widths = (scheme.out_dim, 64, 64)
    layers = [part for pair in itertools.pairwise(widths) for part in (nn.Linear(*pair), nn.ReLU())]
    network = nn.Sequential(*layers, nn.Linear(64, 1))
    optimizer = torch.optim.Adam([*network.parameters(), *scheme.parameters()], lr=5e-3)
    for _ in range(STEPS):
        fitted = network(scheme.embed(scheme.prepare(pos)).float()).squeeze(-1)
        loss = (fitted - image).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return fitted.detach()


torch.manual_seed(0)
schemes = {
    "coordinates": Coordinates(axes=2),
    "Fourier features": FourierFeatures(64, axes=2, sigma=6.0),
    "grid of several resolutions": MultiResolutionGrid(2, resolutions=(4, 8, 16, 32, 64), table_size=4096),
}
fitted = {name: fit(scheme) for name, scheme in schemes.items()}

# %%
# The peak signal-to-noise ratio is the error in decibels, higher is better. One seed and one image are an example, no
# evidence: ``posenc run image-fit photo.jpg`` compares every encoding with several seeds on yours.
figure, axes = plt.subplots(1, 4, figsize=(11, 3), layout="constrained")
axes[0].imshow(image.reshape(SIDE, SIDE).numpy(), cmap="gray", vmin=0, vmax=1)
axes[0].set(title="the image", xticks=[], yticks=[])
for axis, (name, values) in zip(axes[1:], fitted.items(), strict=True):
    decibels = -10 * torch.log10((values - image).square().mean())
    axis.imshow(values.reshape(SIDE, SIDE).numpy(), cmap="gray", vmin=0, vmax=1)
    axis.set(title=f"{name}\n{decibels:.1f} dB", xticks=[], yticks=[])
plt.show()
