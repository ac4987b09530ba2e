"""The choice between the torch form and the Triton form of a kernel, where there is no Triton or no GPU."""

import threading

import pytest
import torch
from torch import Tensor

from posenc.kernels import kernel_form as module
from posenc.kernels.kernel_form import kernel_form, takes_triton


def test_the_torch_form_is_taken_on_a_cpu_whatever_is_installed(monkeypatch):
    for installed in (False, True):
        monkeypatch.setattr(module, "INSTALLED", installed)
        assert not takes_triton(torch.zeros(2), torch.zeros(3))
    with kernel_form("triton"):
        assert takes_triton(torch.zeros(2), torch.nn.Parameter(torch.zeros(3)))


@pytest.mark.parametrize(
    ("capability", "hip", "taken"),
    [((9, 0), None, True), ((8, 0), None, True), ((7, 5), None, False), ((9, 0), "6.2", False)],
)
def test_a_cuda_device_takes_triton_from_its_capability_on(monkeypatch, capability, hip, taken):
    class OnCuda(Tensor):
        @property
        def device(self) -> torch.device:  # pyright: ignore[reportIncompatibleMethodOverride]
            return torch.device("cuda:0")

    monkeypatch.setattr(module, "INSTALLED", True)
    monkeypatch.setattr(module, "Tensor", OnCuda)
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    x = torch.zeros(2).as_subclass(OnCuda)
    assert takes_triton(x) is taken
    with kernel_form("torch"):
        assert not takes_triton(x)
    monkeypatch.setattr(module, "INSTALLED", False)
    assert not takes_triton(x)


def test_triton_takes_neither_transforms_nor_subclasses_nor_nothing_nor_two_devices(monkeypatch):
    monkeypatch.setattr(module, "INSTALLED", True)
    x, answers = torch.zeros(3), []

    class Other(Tensor):
        pass

    def asked(each: Tensor) -> Tensor:
        answers.append(takes_triton(each))
        return each * 1

    with kernel_form("triton"):
        torch.func.vmap(asked)(x)
        torch.func.grad(lambda each: asked(each).sum())(x)
        with torch.autograd.forward_ad.dual_level():
            asked(x)
        asked(x.as_subclass(Other))
        asked(x[:0])
        answers.append(takes_triton(x, torch.zeros(3, device="meta")))
        assert answers == [False] * 6
        assert takes_triton(x)


def test_the_form_belongs_to_a_block_and_a_thread(monkeypatch):
    monkeypatch.setattr(module, "INSTALLED", True)
    x, answers = torch.zeros(2), []
    with kernel_form("triton"):
        with kernel_form("torch"):
            assert not takes_triton(x)
        assert takes_triton(x)
        other = threading.Thread(target=lambda: answers.append(takes_triton(x)))
        other.start()
        other.join()
        with pytest.raises(RuntimeError), kernel_form("torch"):
            raise RuntimeError
        assert takes_triton(x)
    assert answers == [False]
    assert not takes_triton(x)


@pytest.mark.bare  # The shape hook would refuse the unknown form before the sentence does.
def test_unknown_forms_and_absent_triton_are_refused(monkeypatch):
    with pytest.raises(ValueError, match="the form of kernels is 'automatic', 'torch', 'triton'; got 'cuda'"):
        kernel_form("cuda").__enter__()  # pyright: ignore[reportArgumentType]
    monkeypatch.setattr(module, "INSTALLED", False)
    with pytest.raises(
        ValueError, match=r"kernel_form\('triton'\) needs the package triton, which is not installed here"
    ):
        kernel_form("triton").__enter__()
