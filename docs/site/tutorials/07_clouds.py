"""
Point clouds of your own
========================

A point cloud is a list of places without an order. ``posenc run points`` reads a folder with a folder of files for each
class. This writes clouds as ``.npy`` files, compares three ways to tell a model where points are, and classifies a
file.
"""

# %%
# Three balls on a line or in a triangle. The pieces of both classes are equal: only their places differ.
import contextlib
import io
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import posenc
from posenc.cli.data import look
from posenc.workbench import run

rng = np.random.default_rng(0)
centers = {
    "line": np.array([(-1.3, 0, 0), (0, 0, 0), (1.3, 0, 0)]),
    "triangle": np.array([(0, 1, 0), (-0.87, -0.5, 0), (0.87, -0.5, 0)]) * 1.3,
}
folder = Path(tempfile.mkdtemp())
clouds = folder / "clouds"
for name, places in centers.items():
    (clouds / name).mkdir(parents=True)
    for number in range(60):
        directions = rng.normal(size=(int(rng.integers(60, 90)), 3))
        sphere = 0.5 * directions / np.linalg.norm(directions, axis=1, keepdims=True)
        np.save(clouds / name / f"{number}.npy", sphere + places[rng.integers(3, size=len(sphere))])
with contextlib.chdir(folder):
    look(Path("clouds"))

# %%
# ``posenc run points clouds`` trains all variants with five seeds. Here are three variants, one seed and 80 steps; what
# the command prints while it trains is left out. Models see 48 points of each cloud, turned about the third axis at
# random, and for each point the shape of its neighborhood. The variant ``nope`` sees no more than that, ``xyz`` has the
# coordinates as features besides, and ``gridpe`` encodes them in the attention.
with contextlib.redirect_stdout(io.StringIO()):
    result = run(
        "points", clouds, schemes=["nope", "xyz", "gridpe"], seeds=1, panels=["accuracy"], jobs=1,
        changes={"own_steps": 80, "points": 48}, out=folder / "runs",
    )  # fmt: skip
print(result.verdict[0])

# %%
# Accuracy on the held-out clouds, as they are and moved by four radii. GridPE depends on differences of places alone,
# so a move changes nothing; coordinates as features change. ``nope`` is above chance, so the neighborhoods differ a
# little too.
scores = {(row["scheme"], row["metric"]): row["value"] for row in result.table}
variants, metrics = ("nope", "xyz", "gridpe"), {"accuracy": "as they are", "accuracy_moved_4": "moved"}
figure = plt.figure(figsize=(11, 3.2), layout="constrained")
for number, name in enumerate(centers):
    axis = figure.add_subplot(1, 3, number + 1, projection="3d")
    axis.scatter(*np.load(clouds / name / "0.npy").T, s=6)
    axis.set(title=name, xlim=(-2, 2), ylim=(-2, 2), zlim=(-2, 2))
    axis.view_init(elev=70)
axis = figure.add_subplot(1, 3, 3)
for number, (metric, label) in enumerate(metrics.items()):
    heights = [scores[variant, metric] for variant in variants]
    axis.bar(np.arange(3) + 0.4 * number, heights, width=0.4, label=label)
axis.axhline(0.5, color="0.5", linestyle=":", label="chance")
axis.set(ylabel="accuracy, held-out", xticks=np.arange(3) + 0.2, ylim=(0, 1.05))
axis.set_xticklabels(variants)
axis.legend(loc="lower right")
plt.show()

# %%
# A trained model classifies the file of a cloud, or an array.
model = posenc.load(folder / "runs", study="points", variant="gridpe", seed=0)
print([model.classify(clouds / name / "7.npy") for name in model.classes])

# %%
# "Point clouds" lists the forms (``.ply``, ``.xyz``, ``.csv``, meshes), normals and colors as features, and folders
# with parts for training and testing.
