"""Several processes as one training: who they are, how they meet, what happens when one of them fails or is lost.

Every process holds the whole model and takes its own parts of each batch; the sum of their weighted gradients is that
of the batch. Before they exchange anything they say where they are, so that one whose work failed is heard by all.
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
"""How long a process waits for the others, as while the first one measures."""


class Place(IntEnum):
    """Where the processes of a training meet."""

    BEGIN = 0
    STEP = 1
    MEASURE = 2
    SAVE = 3
    END = 4


class Lost(KeyboardInterrupt):
    """Another process of the run is gone, or all were told to end: this one ends too, as by Ctrl-C."""

    def __init__(self) -> None:
        super().__init__("another process of this run ended, or all were told to end")


class ElsewhereError(ValueError):
    """The work failed in another process of the run."""


class Team:
    """The processes of a run, of which this one is number ``rank``; the first leads: it measures, writes and speaks.

    Alone (``size`` 1) every meeting is over at once. Raises Lost where another process has died.
    """

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank, self.size = rank, size

    @property
    def leads(self) -> bool:
        return self.rank == 0

    def meet(self, place: Place, word: int = 0) -> int:
        """Waits until all are at this place; the leader's word. Raises ElsewhereError where one has ended its work."""
        if self.size == 1:
            return word
        places, words = self._places(place, word)
        if set(places) != {place}:
            raise ElsewhereError("the work failed in another process of the run.")
        return words[0]

    def end(self, failure: str) -> list[str]:
        """Waits until all have ended their work; what failed, in the order of the processes, empty where nothing."""
        if self.size == 1:
            return [failure]
        while set(self._places(Place.END)[0]) != {Place.END}:
            pass
        return self.gather(failure)

    def _places(self, place: Place, word: int = 0) -> tuple[list[int], list[int]]:
        import torch
        from torch import distributed

        found = [torch.zeros(2, dtype=torch.int64) for _ in range(self.size)]
        with _heard():
            distributed.all_gather(found, torch.tensor([int(place), word]))
        places, words = torch.stack(found).T.tolist()
        return places, words

    def add(self, tensor: Tensor) -> None:
        """``tensor`` becomes the sum of everybody's."""
        if self.size > 1:
            from torch import distributed

            with _heard():
                distributed.all_reduce(tensor)

    def spread(self, tensor: Tensor) -> None:
        """``tensor`` becomes the leader's."""
        if self.size > 1:
            from torch import distributed

            with _heard():
                distributed.broadcast(tensor, 0)

    def share(self, value: Any) -> Any:
        """The leader's value; tensors in it are on the CPU."""
        if self.size == 1:
            return value
        from torch import distributed

        box = [value]
        with _heard():
            distributed.broadcast_object_list(box, 0)
        return box[0]

    def gather(self, value: Any) -> list[Any]:
        """Everybody's values, in the order of the processes; tensors in them are on the CPU."""
        if self.size == 1:
            return [value]
        from torch import distributed

        found: list[Any] = [None] * self.size
        with _heard():
            distributed.all_gather_object(found, value)
        return found

    def leave(self) -> None:
        """The run is over, which the leader tells the others by sharing None; what follows each does alone."""
        if self.size > 1:
            from torch import distributed

            if self.leads:
                self.share(None)
            with _heard():
                distributed.barrier()  # nobody closes what another one still reads
            self.size = 1
            distributed.destroy_process_group()


@contextmanager
def _heard() -> Iterator[None]:
    import torch

    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError:  # torch has no narrower one for a connection that is gone, or for a long silence
        _answer_sigterm(signal.SIG_IGN)  # which may come while this one ends
        raise Lost from None


def current() -> Team:
    """The processes that this one trains with: those of torch's process group, if it is in one."""
    from torch import distributed

    if not distributed.is_available() or not distributed.is_initialized():
        return Team()
    return Team(distributed.get_rank(), distributed.get_world_size())


def join(rank: int, size: int, local_rank: int, device: str, start: str = "env://") -> Team:
    """Joins the ``size`` processes of a run, on CUDA with device number ``local_rank`` as this process's own.

    start: where they find each other, as torch's ``init_method``; by default where torchrun says. From then on a
    SIGTERM, by which torchrun ends the others when one process has died, raises Lost.

    Raises ValueError for more processes than devices, or a device chosen by number.
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
    _answer_sigterm(_told_to_end)
    backend = "cpu:gloo,cuda:nccl" if device.startswith("cuda") else "gloo"
    distributed.init_process_group(backend, init_method=start, rank=rank, world_size=size, timeout=PATIENCE)
    return Team(rank, size)


def _answer_sigterm(answer: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    if threading.current_thread() is threading.main_thread():  # another one may not
        signal.signal(signal.SIGTERM, answer)


def _told_to_end(number: int, frame: FrameType | None) -> None:
    _answer_sigterm(signal.SIG_IGN)
    raise Lost
