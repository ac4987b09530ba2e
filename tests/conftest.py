"""One thread a process, as many processes as cores; nothing is drawn unseeded, by torch or by hypothesis."""

import functools
import gc
import os
import shutil
import sys
import zlib
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import hypothesis
import pytest
import torch

from stand_in import StandIn

hypothesis.settings.register_profile("seeded", derandomize=True, deadline=None, database=None, max_examples=40)
hypothesis.settings.load_profile("seeded")

# Thousands of tests make millions of lasting objects, which the collector of cycles would visit again and again.
gc.disable()


def pytest_collection_finish() -> None:
    """From here on cycles are collected, but what the tests are made of is not searched for them."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that compile count no executed lines, nor do two of three cases of a test: they would take twice as long.

    The cases of a test execute nearly the same lines. So the share of lines is a lower bound.
    """
    for item in items:
        one_of_many = hasattr(item, "callspec") and zlib.crc32(item.nodeid.encode()) % 3
        if one_of_many or item.get_closest_marker("compile"):
            item.add_marker("no_cover")


@pytest.fixture(autouse=True, scope="session")
def source_read_once() -> Iterator[None]:
    """Stores and commands read the source of the package once in a process of tests, not each of them."""
    from posenc.cli import index_of_source
    from posenc.workbench.storage import source_digests

    read, files = source_digests.SourceDigests._read, {}

    def read_once(self: source_digests.SourceDigests, module: str) -> tuple[str, frozenset[str]] | None:
        if self.folder != source_digests.FOLDER or not module.startswith("posenc."):
            return read(self, module)
        if module not in files:
            files[module] = read(self, module)
        return files[module]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_digests.SourceDigests, "_read", read_once)
        patch.setattr(index_of_source, "build", functools.cache(index_of_source.build))  # where the index is outdated
        yield


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# Without an accelerator torch.manual_seed records the call stack each time, 0.6 ms for each of thousands of tests.
_seed = torch.manual_seed if torch.accelerator.is_available() else torch.default_generator.manual_seed


def pytest_collectstart() -> None:
    """Seed torch before each file of tests is imported, so that no file depends on those imported before it."""
    _seed(0)


@pytest.fixture(autouse=True)
def seeded() -> None:
    _seed(0)


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands execute their runs in this process: each worker process would first load torch, for seconds."""
    from posenc.workbench import runner

    monkeypatch.setattr(runner, "pick", lambda *arguments, **options: runner.InProcess())


@pytest.fixture
def small_surfaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trained shapes are drawn small, and compared at few points of their surface: a second, not five."""
    from posenc.workbench.studies.shape_fit import execute, stored_shape

    for name, number in (("FRAME_RESOLUTION", 8), ("FRAME_SIDE", 16), ("IMAGE_SIDE", 24), ("SECTION_SIDE", 20)):
        monkeypatch.setattr(execute, name, number)
    for module in (execute, stored_shape):
        monkeypatch.setattr(module, "SURFACE_POINTS", 200)


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


@pytest.fixture
def same(record_property: Callable[[str, object], None]) -> Callable[..., None]:
    """Compare values with those of another implementation; ``tools/parity.py`` collects the largest difference.

    A test that uses it has the mark ``compares``.
    """

    def compare(found: torch.Tensor, wanted: torch.Tensor, absolute: float = 1e-5, relative: float = 0.0) -> None:
        torch.testing.assert_close(found, wanted, atol=absolute, rtol=relative)
        size = max(1.0, float(wanted.detach().abs().max()))
        record_property(str(found.dtype), float((found - wanted).detach().abs().max()) / size)

    return compare


@pytest.fixture
def timm() -> Iterator[ModuleType]:
    """timm, with a stand-in for torchvision where there is none, which is taken away again."""
    pytest.importorskip("huggingface_hub")
    if find_spec("timm") is None:
        pytest.skip("timm is not installed: pip install --no-deps timm")
    stand_in = StandIn()
    sys.meta_path.append(stand_in)  # last: a real torchvision is found first
    try:
        yield pytest.importorskip("timm")
    finally:
        sys.meta_path.remove(stand_in)
        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            if getattr(sys.modules[name].__spec__, "loader", None) is stand_in:
                del sys.modules[name]


@pytest.fixture(scope="module")
def browser():
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        reason = "no Chromium on the path; install the package chromium to look at the page"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield running
        running.close()
