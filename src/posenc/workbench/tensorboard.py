"""TensorBoard logger: every measurement during training as a scalar over steps."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from posenc.workbench.progress import Event

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

    from posenc.workbench.runs import RunSpec


class TensorBoardLogger:
    """Writer of TensorBoard event files, one folder STUDY/CONDITION/VARIANT/seed-N per run.

    A run that resumes from a checkpoint adds a second file to its folder.

    Args:
        folder: Folder of the event files.
        specs: The runs.

    Raises:
        ValueError: TensorBoard is not installed.
    """

    def __init__(self, folder: Path, specs: Sequence[RunSpec]) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ValueError(
                "TensorBoard event files need the package tensorboard, which is not installed: pip install 'posenc[tb]'"
            ) from None
        self.writer, self.folder = SummaryWriter, folder
        self.specs = {spec.identity: spec for spec in specs}
        self.open: dict[str, SummaryWriter] = {}

    def emit(self, event: Event) -> None:
        """Log the measurements of an event; close the file of a run that has ended."""
        if event.kind == "progress" and event.metrics:
            if event.key not in self.open:
                self.open[event.key] = self.writer(str(self.path(event.key)))
            for metric, value in event.metrics.items():
                self.open[event.key].add_scalar(metric, value, event.step)
            self.open[event.key].flush()
        elif event.kind in ("finished", "failed") and event.key in self.open:
            self.open.pop(event.key).close()

    def path(self, key: str) -> Path:
        """Folder of a run's event files."""
        spec = self.specs[key]
        parts = (spec.study, spec.condition, spec.variant, f"seed-{spec.seed}")
        return self.folder.joinpath(*(re.sub(r"[^\w.,=+() -]", "_", part) for part in parts))

    def close(self) -> None:
        """Close all open files."""
        for writer in self.open.values():
            writer.close()
        self.open.clear()
