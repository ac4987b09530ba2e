"""Image files of a user in a store."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from posenc.workbench.storage.stored_records import StoredRecords
from posenc.workbench.studies.image_fit.stored_image import load_pixels, store_file
from tiny_data import image

pytestmark = pytest.mark.bare


def test_an_image_of_one_pixel_is_refused(tmp_path: Path) -> None:
    image(tmp_path / "dot.png", side=1)
    with pytest.raises(ValueError, match=r"dot\.png has 1 x 1 pixels, and a field is fitted to an image of at least 4"):
        store_file(tmp_path, tmp_path / "dot.png", None)
    image(tmp_path / "small.png", side=2)
    assert store_file(tmp_path, tmp_path / "small.png", None).shape[:2] == (2, 2)


@pytest.mark.parametrize("name", ["a.tif", "a.gif"])
def test_further_images_of_a_file_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """Before, the first page of a TIFF was fitted without a word."""
    pytest.importorskip("tifffile")
    Image = pytest.importorskip("PIL.Image")
    pages = [Image.fromarray(np.full((4, 4), 40 * number, np.uint8)) for number in range(3)]
    pages[0].save(tmp_path / name, save_all=True, append_images=pages[1:])
    for _ in range(2):  # the second time from the store
        stored = store_file(tmp_path, tmp_path / name, None)
        record = StoredRecords(tmp_path).get(stored.record)
        assert record is not None
        assert record.left_out == ("The file has 3 images, of which the first was read.",)
    assert capsys.readouterr().out == f"{name} has 3 images. Runs fit the first.\n"


def test_colors_that_nobody_sees_are_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(1, 256, (4, 6, 4), np.uint8)
    pixels[1, 2:5, 3] = 0
    for name, colors in (("loud", 200), ("other", 7)):
        pixels[1, 2:5, :3] = colors
        Image.fromarray(pixels).save(tmp_path / f"{name}.png")
    stored = [store_file(tmp_path, tmp_path / f"{name}.png", None) for name in ("loud", "other")]
    assert stored[0].name == stored[1].name
    kept = load_pixels(tmp_path, stored[0].name)
    assert not kept[1, 2:5].any()
    np.testing.assert_array_equal(kept[0], pixels[0])
    assert "loud.png has colors where it is transparent. Nobody sees them" in capsys.readouterr().out
