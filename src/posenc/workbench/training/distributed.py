"""Distributed data-parallel training: process groups, synchronization, and handling of failed or lost processes.

Every process holds the whole model and computes its own parts of each batch. The sum of their weighted gradients is the
gradient of the batch. Before every exchange the processes compare their positions in the program, so that all of them
notice a process that failed.
"""

from __future__ import annotations

import datetime
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

PATIENCE = datetime.timedelta(hours=2)
"""Longest time that a process waits for another, for example while the first process evaluates."""


class SyncPoint(IntEnum):
    """Synchronization points of a training."""

    BEGIN = 0
    STEP = 1
    MEASURE = 2
    SAVE = 3
    END = 4


class LostProcess(KeyboardInterrupt):
    """Raised if another process of the run has died or all processes were asked to end; it ends this one as Ctrl-C."""

    def __init__(self) -> None:
        super().__init__("another process of this run ended, or all processes were asked to end")


class OtherProcessError(ValueError):
    """Raised if another process of the run failed."""


class ProcessGroup:
    """Processes of a distributed run.

    The first process is the leader: it evaluates, writes checkpoints and reports progress. With one process all methods
    return at once. Methods raise LostProcess if another process has died.

    Args:
        rank: number of this process, from 0.
        size: number of processes.
    """

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank, self.size = rank, size

    @property
    def leads(self) -> bool:
        """True for the leader."""
        return self.rank == 0

    def meet(self, place: SyncPoint, word: int = 0) -> int:
        """Wait until all processes are at a synchronization point.

        Args:
            place: the synchronization point.
            word: number to send; that of the leader counts.

        Returns:
            The leader's number.

        Raises:
            OtherProcessError: another process has ended its work.
        """
        if self.size == 1:
            return word
        places, words = self._places(place, word)
        if set(places) != {place}:
            raise OtherProcessError("the work failed in another process of the run.")
        return words[0]

    def end(self, failure: str) -> list[str]:
        """Wait until all processes have ended their work.

        Args:
            failure: error message of this process, empty without one.

        Returns:
            Error messages of all processes in order.
        """
        if self.size == 1:
            return [failure]
        while set(self._places(SyncPoint.END)[0]) != {SyncPoint.END}:
            pass
        return self.gather(failure)

    def _places(self, place: SyncPoint, word: int = 0) -> tuple[list[int], list[int]]:
        import torch
        from torch import distributed

        states = [torch.zeros(2, dtype=torch.int64) for _ in range(self.size)]
        with _connection_errors():
            distributed.all_gather(states, torch.tensor([int(place), word]))
        places, words = torch.stack(states).T.tolist()
        return places, words

    def add(self, tensor: Tensor) -> None:
        """Replace ``tensor`` by its sum over all processes (all-reduce)."""
        if self.size > 1:
            from torch import distributed

            with _connection_errors():
                distributed.all_reduce(tensor)

    def spread(self, tensor: Tensor) -> None:
        """Replace ``tensor`` by that of the leader (broadcast)."""
        if self.size > 1:
            from torch import distributed

            with _connection_errors():
                distributed.broadcast(tensor, 0)

    def share(self, value: Any) -> Any:
        """Return the leader's value (broadcast of an object). Tensors in it are on the CPU."""
        if self.size == 1:
            return value
        from torch import distributed

        values = [value]
        with _connection_errors():
            distributed.broadcast_object_list(values, 0)
        return values[0]

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all processes in order (all-gather of objects). Tensors in them are on the CPU."""
        if self.size == 1:
            return [value]
        from torch import distributed

        values: list[Any] = [None] * self.size
        with _connection_errors():
            distributed.all_gather_object(values, value)
        return values

    def leave(self) -> None:
        """End the process group. The leader shares None; afterwards each process continues alone."""
        if self.size > 1:
            from torch import distributed

            if self.leads:
                self.share(None)
            with _connection_errors():
                distributed.barrier()  # no process closes the group while another still reads from it
            self.size = 1
            distributed.destroy_process_group()


@contextmanager
def _connection_errors() -> Iterator[None]:
    """Turn errors of a lost connection into LostProcess."""
    import torch

    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError:  # torch has no narrower error for a lost connection or a timeout
        _answer_sigterm(signal.SIG_IGN)  # a SIGTERM may arrive while this process ends
        raise LostProcess from None


def current() -> ProcessGroup:
    """Return the processes of torch's process group, or this process alone without one."""
    from torch import distributed

    if not distributed.is_available() or not distributed.is_initialized():
        return ProcessGroup()
    return ProcessGroup(distributed.get_rank(), distributed.get_world_size())


def join(rank: int, size: int, local_rank: int, device: str, start: str = "env://") -> ProcessGroup:
    """Join the processes of a distributed run.

    Afterwards a SIGTERM raises LostProcess. torchrun sends it to the other processes if one has died.

    Args:
        rank: number of this process, from 0.
        size: number of processes.
        local_rank: number of this process on its machine; on CUDA also the number of its device.
        device: "cpu" or "cuda".
        start: ``init_method`` of torch's process group; by default that of torchrun.

    Returns:
        The processes of the run.

    Raises:
        ValueError: more processes than devices, or a device with a number.
    """
    import torch
    from torch import distributed

    if device.startswith("cuda"):
        here = torch.cuda.device_count()
        if device != "cuda":
            raise ValueError(f"each process of a run takes a device of its own; got {device!r}. Use --device cuda.")
        if local_rank >= here:
            raise ValueError(
                f"process {local_rank} of this machine needs a CUDA device of its own, and there are {here}. "
                f"Use torchrun --nproc-per-node {max(here, 1)}."
            )
        torch.cuda.set_device(local_rank)
    _answer_sigterm(_raise_lost)
    backend = "cpu:gloo,cuda:nccl" if device.startswith("cuda") else "gloo"
    distributed.init_process_group(backend, init_method=start, rank=rank, world_size=size, timeout=PATIENCE)
    return ProcessGroup(rank, size)


def _answer_sigterm(answer: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    if threading.current_thread() is threading.main_thread():  # signal handlers can be set in the main thread only
        signal.signal(signal.SIGTERM, answer)


def _raise_lost(number: int, frame: FrameType | None) -> None:
    _answer_sigterm(signal.SIG_IGN)
    raise LostProcess
