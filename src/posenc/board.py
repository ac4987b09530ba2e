"""What is measured while units train, as TensorBoard shows it: one run a unit, one scalar a metric, over steps."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from posenc.progress import Event

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

    from posenc.store import Unit


class Board:
    """Event files under `folder`, in STUDY/SETTING/SCHEME/seed-N: every point of a unit's curve, at the step at which
    it was measured. A unit that goes on from a checkpoint adds a file to its folder.

    Errors: ValueError where TensorBoard is not installed.
    """

    def __init__(self, folder: Path, units: Sequence[Unit]) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ValueError(
                "TensorBoard's files need the package tensorboard, which is not installed: pip install 'posenc[tb]'"
            ) from None
        self.writer, self.folder = SummaryWriter, folder
        self.units = {unit.key: unit for unit in units}
        self.open: dict[str, SummaryWriter] = {}

    def emit(self, event: Event) -> None:
        if event.kind == "progress" and event.metrics:
            if event.key not in self.open:
                self.open[event.key] = self.writer(str(self.path(event.key)))
            for metric, value in event.metrics.items():
                self.open[event.key].add_scalar(metric, value, event.step)
            self.open[event.key].flush()
        elif event.kind in ("finished", "failed") and event.key in self.open:
            self.open.pop(event.key).close()

    def path(self, key: str) -> Path:
        """A unit's own folder."""
        unit = self.units[key]
        parts = (unit.study, unit.setting, unit.scheme, f"seed-{unit.seed}")
        return self.folder.joinpath(*(re.sub(r"[^\w.,=+() -]", "_", part) for part in parts))

    def close(self) -> None:
        for writer in self.open.values():
            writer.close()
        self.open.clear()
