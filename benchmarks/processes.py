"""Processes that train side by side, started once, timed in turn: a number of epochs in, a word out when it is done."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection


@contextmanager
def started(serve: Callable[..., None], *each: tuple[object, ...]) -> Iterator[list[Connection]]:
    """A process for each of these arguments, which runs ``serve(pipe, *arguments)``; ended on leaving."""
    context = get_context("spawn")
    pipes, processes = [], []
    try:
        for arguments in each:
            ours, theirs = context.Pipe()
            processes.append(context.Process(target=serve, args=(theirs, *arguments), daemon=True))
            processes[-1].start()
            pipes.append(ours)
        yield pipes
    finally:
        for process in processes:
            process.kill()
            process.join()


def together(pipes: list[Connection], epochs: int) -> float:
    """Seconds until every one of these processes has trained so many epochs."""
    began = time.perf_counter()
    for pipe in pipes:
        pipe.send(epochs)
    for pipe in pipes:
        pipe.recv()
    return time.perf_counter() - began
