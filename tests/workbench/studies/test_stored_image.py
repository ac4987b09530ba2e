"""Image files of a user in a store."""

from __future__ import annotations

from pathlib import Path

import pytest

from posenc.workbench.studies.image_fit.stored_image import store_file
from tiny_data import image

pytestmark = pytest.mark.bare


def test_an_image_of_one_pixel_is_refused(tmp_path: Path) -> None:
    image(tmp_path / "dot.png", side=1)
    with pytest.raises(ValueError, match=r"dot\.png has 1 x 1 pixels, and a field is fitted to an image of at least 4"):
        store_file(tmp_path, tmp_path / "dot.png", None)
    image(tmp_path / "small.png", side=2)
    assert store_file(tmp_path, tmp_path / "small.png", None).shape[:2] == (2, 2)
