"""Precisions of a step, and CUDA graphs of steps. Tests that need CUDA are skipped without it."""

import contextlib
import warnings

import pytest
import torch
from small_fits import CASES, OTHER_RATES, differences, line_fit, plan, puzzle_fit
from torch.nn import functional

from posenc.positions import grid, sequence
from posenc.workbench.training import batched_step
from posenc.workbench.training.batched import Member, train_batched
from posenc.workbench.training.loop import Fit, train
from posenc.workbench.training.precision import Arithmetic


def test_bfloat16_is_near_and_not_the_same():
    exact, rough = (
        train_batched([Member(puzzle_fit("Learned", {}, seed), plan(epochs=3), seed) for seed in range(2)], precision=p)
        for p in ("float32", "bfloat16")
    )
    assert [row["value"] for row in exact[0][:1]] == [row["value"] for row in rough[0][:1]]  # measured in float32
    assert 0 < differences(exact[0], rough[0]) < 0.05
    alone = train(puzzle_fit("Learned", {}, 0), plan(epochs=3), seed=0, precision="bfloat16")
    assert differences(alone, rough[0]) < 0.02


def test_a_precision_that_the_device_does_not_have_is_refused():
    with pytest.raises(ValueError, match="tf32 is a precision of CUDA devices; this model is on cpu"):
        train(line_fit(), plan(), seed=0, precision="tf32")
    with pytest.raises((ValueError, TypeError), match=r"precision='fp8'|Type-check error"):
        Arithmetic("fp8", "cpu")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="graph=True records CUDA graphs; these models are on cpu"):
        train_batched([Member(line_fit(), plan(), 0)], graph=True)


def test_tf32_is_on_inside_a_step_alone():
    matmul = torch.backends.cuda.matmul
    before = torch.backends.cuda.matmul.fp32_precision
    arithmetic = Arithmetic("tf32", "cuda")
    with arithmetic.products(), arithmetic.forward():
        assert matmul.fp32_precision == "tf32"
    assert matmul.fp32_precision == before


class FakeGraph:
    """Replaces a CUDA graph on a machine without CUDA; it counts its replays."""

    def __init__(self, log):
        self.log = log

    def replay(self):
        self.log.append("replay")

    def pool(self):
        return "pool"


@pytest.mark.parametrize("recordable", [True, False])
def test_a_step_runs_thrice_then_is_recorded_for_each_batch_size(monkeypatch, recordable):
    log = []

    @contextlib.contextmanager
    def record(graph, pool=None):
        log.append(f"record in {pool}")
        yield
        if not recordable:
            raise RuntimeError("operation not permitted when stream is capturing")

    stream = type("S", (), {"wait_stream": lambda self, other: None})
    for name, value in {
        "Stream": lambda device: stream(), "current_stream": lambda device: stream(), "graph": record,
        "stream": lambda stream: contextlib.nullcontext(), "synchronize": lambda device: None,
        "CUDAGraph": lambda: FakeGraph(log),
    }.items():  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, value)
    replay = batched_step.Replay(lambda index: log.append(tuple(index.shape)), torch.device("cpu"))
    full, rest = torch.zeros(2, 24, dtype=torch.long), torch.zeros(2, 16, dtype=torch.long)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for index in (full, rest, full, full, full, full, rest, rest, rest):
            replay(index)
    a, b = (2, 24), (2, 16)
    if recordable:
        expected = [a, b, a, a, "record in None", a, "replay", "replay", b, b, "record in pool", b, "replay"]
        assert said == []
    else:  # the step that was to be recorded has not run yet
        expected = [a, b, a, a, "record in None", a, a, a, b, b, b]
        assert "cannot be recorded as a CUDA graph (operation not permitted" in str(said[0].message)
        assert len(said) == 1
    assert log == expected


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_losses_on_a_gpu_are_those_of_training_alone(case, graph):
    scheme, options = CASES[case]

    def moved(own, seed):
        fit = puzzle_fit(scheme, own, seed)
        x, probe, answer = (part.cuda() for part in fit.data)
        model, pos = fit.model.cuda(), (grid(4, 4) if own.get("axes") == 2 else sequence(16)).to("cuda")
        score = lambda model, x, probe, answer: functional.cross_entropy(model(x, pos, probe), answer)  # noqa: E731
        return Fit.of(model, (x, probe, answer), score, lambda: {"loss": score(model, x, probe, answer).item()})

    fits = [moved(own, seed) for seed, own in enumerate(options)]
    members = [Member(fit, config, s) for s, (fit, config) in enumerate(zip(fits, OTHER_RATES, strict=True))]
    for seed, curve in enumerate(train_batched(members, graph=graph)):
        assert differences(train(moved(options[seed], seed), OTHER_RATES[seed], seed=seed), curve) < 1e-5
