"""One thread a process, as many processes as cores; nothing is drawn unseeded, by torch or by hypothesis."""

import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
import torch

hypothesis.settings.register_profile("seeded", derandomize=True, deadline=None, database=None, max_examples=40)
hypothesis.settings.load_profile("seeded")


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def data_folder() -> Path:
    """The folder of real data (photographs, meshes, maps)."""
    data = os.environ.get("POSENC_DATA")
    if not data or not Path(data).is_dir():
        pytest.skip("POSENC_DATA does not name a folder of real data")
    return Path(data)


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
