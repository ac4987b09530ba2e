"""Parts of a watertight mesh that are inside out, as those that a negative scale mirrored: they are turned.

A part whose faces look inwards is the wall of a cavity if the rest of the mesh encloses it. If nothing encloses it, its
inside would count as outside.
"""

from __future__ import annotations

import numpy as np

from posenc.workbench.tasks.shapes.distance import MeshTree, solid_angle
from posenc.workbench.tasks.shapes.meshes import Mesh

STEP = 1e-6
"""Distance from a part of the point whose winding number is computed, as a share of the mesh's diagonal."""


def turn_parts(mesh: Mesh) -> tuple[Mesh, int]:
    """Turn the parts of a watertight mesh that are inside out and not enclosed.

    Args:
        mesh: The mesh.

    Returns:
        The mesh, the same if there are none, and their number.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    ends = mesh.faces[:, [0, 1]].T, mesh.faces[:, [1, 2]].T
    joined = np.concatenate(ends, 1)
    graph = coo_array((np.ones(joined.shape[1], bool), tuple(joined)), shape=(len(mesh.vertices),) * 2)
    count, part_of_vertex = connected_components(graph, directed=False)
    part = part_of_vertex[mesh.faces[:, 0]]
    center = mesh.box[0]
    volumes = np.bincount(part, np.einsum("fi,fi->f", mesh.corners[:, 0] - center, mesh.area_vectors), count)
    inwards = np.flatnonzero(volumes < 0)
    if not len(inwards):
        return mesh, 0
    order = np.argsort(part, kind="stable")
    first = np.searchsorted(part[order], np.arange(count + 1))
    faces = order[first[inwards]]
    points = mesh.corners[faces].mean(1) + STEP * mesh.diagonal * mesh.normals[faces]
    of_all = MeshTree(mesh).winding(points)
    turned = mesh.faces.copy()
    number = 0
    for index, point, whole in zip(inwards, points, of_all, strict=True):
        own = order[first[index] : first[index + 1]]
        of_own = solid_angle(np.broadcast_to(point, (len(own), 3)), mesh.corners[own]).sum() / (4 * np.pi)
        if abs(whole - of_own) < 0.5:  # nothing encloses it
            turned[own] = turned[own, ::-1]
            number += 1
    return (Mesh(mesh.vertices, turned), number) if number else (mesh, 0)
