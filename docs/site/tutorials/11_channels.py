"""
Channels whose arrangement nobody knows
=======================================

Sixteen sensors were recorded together, and nobody noted which of them stand side by side. A model that predicts hidden
channels from the others has to learn which are related. Its learned positions show this. This compares them with the
correlations, which need no training.
"""

# %%
# Made recordings: each channel is the signal of its group and as much noise. Four groups, in a random order.
import matplotlib.pyplot as plt
import numpy as np
import torch

from posenc import Learned, sequence
from posenc.measure.distances import token_distances
from posenc.measure.modularity import adjusted_rand
from posenc.measure.stable_groups import correlation_distances, groups_by_number
from posenc.models.encoder import EncoderConfig
from posenc.models.masked_encoder import MaskedEncoder

CHANNELS, GROUPS = 16, 4
torch.manual_seed(0)
group = torch.randperm(CHANNELS) % GROUPS
series = torch.randn(3000, GROUPS)[:, group] + torch.randn(3000, CHANNELS)  # (times, channels)

# %%
# The model knows a channel by its number alone: a learned row for each, at random places before training.
config = EncoderConfig(channels=1, classes=1, dim=24, depth=1, hidden=48, activation="relu")
model = MaskedEncoder(config, lambda layer: Learned(24, CHANNELS, sigma=0.1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
before = model.schemes[0].table.detach().clone()
for _ in range(500):
    values = series[torch.randint(len(series), (64,)), :, None]
    hidden = torch.rand(64, CHANNELS).topk(8).indices
    loss = (model(values, sequence(CHANNELS), hidden) - values.gather(1, hidden[..., None])).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# %%
# Groups are the clusters of average linkage, of the distances between learned rows and of the correlations. The
# adjusted Rand index is 1 for equal groups and about 0 by chance.
distances = {
    "before training": token_distances(before),
    "learned positions": token_distances(model.schemes[0].table.detach()),
    "correlations": correlation_distances(torch.corrcoef(series.T)),
}
found = {name: groups_by_number(each, [GROUPS])[GROUPS] for name, each in distances.items()}
for name, groups in found.items():
    print(f"{name:18} agreement with the true groups {adjusted_rand(groups, group):.2f}")
print(f"learned positions and correlations: {adjusted_rand(found['learned positions'], found['correlations']):.2f}")

# %%
# Distances between channels, in the order of the groups of the learned positions.
order = np.argsort(found["learned positions"].numpy(), kind="stable")
figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
for axis, (name, each) in zip(axes, distances.items(), strict=True):
    image = axis.imshow(each.numpy()[np.ix_(order, order)], cmap="viridis")
    axis.set(title=f"distances: {name}", xticks=range(CHANNELS), yticks=range(CHANNELS))
    axis.set_xticklabels(order + 1, fontsize=7)
    axis.set_yticklabels(order + 1, fontsize=7)
    figure.colorbar(image, ax=axis, shrink=0.7)
plt.show()

# %%
# Here the correlations say the same, without a network: look at them first. ``posenc run masked recordings.npz`` finds
# the number of groups too, tests whether they repeat, and says whether the network adds anything to the correlations:
# "Recordings of channels".
