"""The shape study and meshes that enclose no volume."""

from pathlib import Path

import pytest

from posenc.workbench import studies
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.shape_fit import STUDY
from posenc.workbench.tasks import shapes

FLAT = "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nf 1 2 3\n"


@pytest.mark.parametrize("faces", ["f 1 3 4\n", "f 3 2 1\n", "f 1 3 4\nf 3 2 1\nf 4 3 1\n"])
def test_a_mesh_without_volume_is_refused(tmp_path: Path, faces: str) -> None:
    """A square, a triangle with two sides, and a square with two sides: no field can be right or wrong about them."""
    source = tmp_path / "flat.obj"
    source.write_text(FLAT + faces)
    for names in (None, ["occupancy"]):
        request = studies.Request(preset="quick", source=source, schemes=["none"], panels=names, seeds=[0])
        with pytest.raises(ValueError, match=r"flat.obj encloses no volume.*thicken this one"):
            STUDY.plan(request, Store(tmp_path / "runs"))
    assert not list((tmp_path / "runs").rglob("shape-*.npz"))


def test_a_thin_solid_and_an_open_bowl_have_an_inside_and_a_sheet_has_none() -> None:
    for thickness in (1.0, 1e-3):
        assert shapes.has_inside(shapes.place_in_cube("plate", shapes.Mesh(*shapes.cuboid(1, 1, thickness))).mesh)
    vertices, faces = shapes.cuboid(1, 1, 1)
    assert shapes.has_inside(shapes.Mesh(vertices, faces[:-2]))  # a box without its lid
    assert not shapes.has_inside(shapes.Mesh(vertices, faces[:2]))
