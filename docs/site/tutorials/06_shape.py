"""
Fit a shape and draw it
=======================

A signed distance is negative inside a solid and positive outside, so a network that maps a point to its distance stores
the surface. This fits the distance of a mesh with three encodings of the point, and draws the surfaces.
"""

# %%
# A mesh made by code, a tube around a knotted curve. ``posenc run shape-fit`` reads ``.obj``, ``.ply``, ``.stl`` and
# ``.off`` files of yours.
import contextlib
import io
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import trimesh

from posenc.workbench import export_run, run

turn = np.linspace(0, 2 * np.pi, 181)[:-1]
curve = np.stack([np.sin(turn) + 2 * np.sin(2 * turn), np.cos(turn) - 2 * np.cos(2 * turn), -np.sin(3 * turn)], 1)
along = np.roll(curve, -1, 0) - np.roll(curve, 1, 0)
side = np.cross(along, [0, 0, 1])
side /= np.linalg.norm(side, axis=1, keepdims=True)
other = np.cross(along, side)
other /= np.linalg.norm(other, axis=1, keepdims=True)
around = np.linspace(0, 2 * np.pi, 25)[:-1, None, None]
vertices = curve + 0.45 * (np.cos(around) * side + np.sin(around) * other)  # (24, 180, 3)
number = np.arange(24 * 180).reshape(24, 180)
right, up = np.roll(number, -1, 1), np.roll(number, -1, 0)
both = np.roll(up, -1, 1)
faces = np.concatenate([np.stack([number, right, up], -1), np.stack([up, right, both], -1)]).reshape(-1, 3)

folder = Path(tempfile.mkdtemp())
trimesh.Trimesh(vertices.reshape(-1, 3), faces, process=False).export(folder / "knot.ply")

# %%
# Each variant has the same number of steps and at most as many parameters. ``posenc run shape-fit knot.ply`` takes
# 1,000 steps and three seeds. These 100 steps, one seed and fewer sample points are a short example; what the command
# prints while it trains is left out.
schemes = {"none": "no encoding", "basic": "sine and cosine", "multires": "grid of several resolutions"}
short = {"steps": 100, "batch": 1024, "resolution": 40}
short |= {f"pools.{kind}": 1 << 12 for kind in ("uniform", "near", "surface", "held")}
with contextlib.redirect_stdout(io.StringIO()):
    result = run(
        "shape-fit", folder / "knot.ply", schemes=list(schemes), seeds=1, panels=["fit"], changes=short, jobs=1,
        out=folder / "runs",
    )  # fmt: skip
print(result.verdict[0])
iou = {row["scheme"]: row["value"] for row in result.table if row["metric"] == "iou"}

# %%
# ``export_run`` writes the surface of a trained model as a mesh, in the coordinates of the file. IoU is the volume that
# both solids have divided by the volume that either has: 1 for equal solids.
figure, axes = plt.subplots(1, 4, figsize=(11, 3.2), layout="constrained", subplot_kw={"projection": "3d"})
meshes = {"the mesh": trimesh.load(folder / "knot.ply")}
for variant, name in schemes.items():
    fitted = export_run(folder / "runs", folder / f"{variant}.ply", study="shape-fit", variant=variant, size=40)
    meshes[f"{name}\nIoU {iou[variant]:.2f}"] = trimesh.load(fitted)
for axis, (name, mesh) in zip(axes, meshes.items(), strict=True):
    axis.plot_trisurf(*mesh.vertices.T, triangles=mesh.faces, color="tab:blue", linewidth=0)
    axis.set(xlim=(-3, 3), ylim=(-3, 3), zlim=(-3, 3))
    axis.set_title(name, y=0.9)
    axis.view_init(elev=70)
    axis.set_axis_off()
plt.show()

# %%
# These are 100 steps of one seed, an example and no evidence. Higher resolutions, normals and meshes with holes are in
# "Fields, meshes, scenes".
