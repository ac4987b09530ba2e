"""Where the real data of a task are, for the tests marked ``data``."""

import os
from pathlib import Path

import pytest


@pytest.fixture
def authors_folder() -> Path:
    """The Latin squares of github ljhearne/LSTNN_public."""
    data = os.environ.get("POSENC_DATA")
    if not data:
        pytest.skip("POSENC_DATA is not set: it names the folder that holds lst/, the authors' Latin squares")
    folder = Path(data) / "lst"
    if not folder.is_dir():
        pytest.skip(f"POSENC_DATA is {data}, which has no folder lst/ with the authors' Latin squares")
    return folder
