"""Processor share: how many cores a number of busy processes get on this machine now, beside everything else."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import msgspec
import torch

from posenc.workbench.progress import CostEstimate
from posenc.workbench.provenance import cores

MEASURED_SECONDS = 0.6
"""Duration of a measurement: several periods in which an operating system or a container divides the processors."""
SIDE = 192
"""Side of the matrices that the busy threads multiply. torch holds no lock of Python meanwhile."""
SHORT_SECONDS = 5.0
"""Estimates below this are given for free processors."""


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread: several wait for each other where other programs use the processors.

    Yields:
        Nothing; the number of threads is as before afterwards.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def available_cores(processes: int, seconds: float = MEASURED_SECONDS) -> float:
    """Measure the cores that some busy processes get together, while other programs run as they do now.

    One thread per process multiplies matrices. The result is the processor time of this process over the time of the
    clock.

    Args:
        processes: Number of busy processes.
        seconds: Duration of the measurement.

    Returns:
        Number of cores, more than 0 and at most ``processes``.
    """
    factor, over = torch.full((SIDE, SIDE), 1e-3), threading.Event()

    def multiply() -> None:
        while not over.is_set():
            torch.mm(factor, factor)

    threads = [threading.Thread(target=multiply, daemon=True) for _ in range(processes)]
    with one_thread():
        try:
            began, spent = time.perf_counter(), time.process_time()
            for thread in threads:
                thread.start()
            over.wait(seconds)
            used = (time.process_time() - spent) / (time.perf_counter() - began)
        finally:
            over.set()
            for thread in threads:
                thread.join()
    return min(max(used, 0.05), float(processes))


def with_present_load(estimate: CostEstimate, processes: int) -> CostEstimate:
    """Add to an estimate the time on this machine as busy as it is now.

    A short estimate stays as it is, because a measurement would take longer than it is worth.

    Args:
        estimate: Estimate for processors that do nothing else.
        processes: Number of processes that run at the same time on the CPU.

    Returns:
        The estimate, with ``busy_seconds`` if the measurement was made.
    """
    if estimate.seconds < SHORT_SECONDS:
        return estimate
    processes = min(processes, estimate.runs)  # one run alone gets another share than two get together
    slowdown = min(processes, cores()) / available_cores(processes)
    return msgspec.structs.replace(estimate, busy_seconds=estimate.seconds * max(slowdown, 1.0))
