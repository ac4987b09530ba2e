"""One thread a process, as many processes as cores; nothing is drawn unseeded, by torch or by hypothesis."""

from collections.abc import Iterator

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
