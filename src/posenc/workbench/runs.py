"""Runs: the specification of one model and one seed, the procedure that executes it, and its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from posenc.workbench.storage.identity import identity

if TYPE_CHECKING:
    import numpy as np
    import torch

Row = dict[str, Any]
Reporter = Callable[[int, int, float, dict[str, float]], None]
"""Called with step, steps, samples per second and new measurements."""


TRAINED = ("steps", "examples", "training_seconds", "chosen_step")
"""Names of ``RunResult.trained``, which a store has among the timing of a run."""


class RunSpec(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Specification of one run: one model, one seed. ``identity`` addresses its result.

    Attributes:
        study: Id of the study.
        variant: Label of the encoding in the study, such as "learned-0.2". Outside the identity.
        seed: Seed of the model and of all random numbers.
        preset: Name of the preset that needs it. Outside the identity.
        condition: Label of the condition, such as a weight decay. Outside the identity.
        procedure: Id of the procedure that executes it, such as "latin-squares.train".
        version: Version of the procedure.
        entry: "module:function" of the code that executes it. Outside the identity.
        parents: Role to identity, for the runs whose results this one reads.
        settings: Everything else that decides the result, as plain JSON.

    The names in stored files (``scheme``, ``setting``, ``work``) are constants of the format. ``Procedure.spec`` makes
    a specification from a procedure.

    Example:
        >>> from posenc.workbench import RunSpec
        >>> spec = RunSpec(
        ...     study="toy", variant="rope", seed=0, preset="quick", procedure="toy.train", settings={"lr": 0.1}
        ... )
        >>> len(spec.identity)
        24
        >>> relabeled = RunSpec(
        ...     study="toy", variant="RoPE", seed=0, preset="paper", procedure="toy.train", settings={"lr": 0.1}
        ... )
        >>> relabeled.identity == spec.identity  # labels are outside the identity
        True
    """

    study: str
    variant: str = msgspec.field(name="scheme")
    seed: int
    preset: str
    condition: str = msgspec.field(default="main", name="setting")
    procedure: str = ""
    version: int = 1
    entry: str = msgspec.field(default="", name="work")
    parents: dict[str, str] = {}
    settings: dict[str, Any]

    @cached_property
    def identity(self) -> str:
        """Digest of everything that decides the result, 24 hexadecimal digits (``workbench/storage/identity.py``).

        Returns:
            The identity.

        Raises:
            SettingsError: The settings are not plain JSON.
            ValueError: It has no procedure, without which different runs would share an identity.
        """
        if not self.procedure:
            raise ValueError(
                f"{self.study}, {self.variant}, needs the id of its procedure. Make it with Procedure.spec(..)."
            )
        return identity(
            study=self.study,
            procedure=self.procedure,
            version=self.version,
            seed=self.seed,
            parents=self.parents,
            settings=self.settings,
        )

    @property
    def labels(self) -> Row:
        """First columns of every row of this run, under their stored names."""
        return {
            "study": self.study,
            "preset": self.preset,
            "setting": self.condition,
            "scheme": self.variant,
            "seed": self.seed,
        }

    @property
    def device(self) -> str:
        """Device that executes it, ``cpu`` unless the settings name another."""
        return str(self.settings.get("device", "cpu"))

    def labeled(self, labels: Mapping[str, Any]) -> RunSpec:
        """Return the same run under other labels.

        Args:
            labels: The first columns of a row: "preset", "setting" (the condition) and "scheme" (the variant).

        Returns:
            The run with these labels; its identity is the same.
        """
        return msgspec.structs.replace(
            self, preset=labels["preset"], condition=labels["setting"], variant=labels["scheme"]
        )


class RunResult(msgspec.Struct, kw_only=True):
    """Result of a run.

    Attributes:
        metrics: Metrics by name, such as ``{"accuracy_iid": 0.98}``.
        curves: Rows of the learning curves, such as ``{"epoch": 10, "metric": "loss", "value": 0.5}``.
        arrays: Arrays by name, such as the prediction for every sample.
        weights: ``state_dict`` of the trained model; empty to store no weights.
        trained: What was trained: "steps", "examples", "training_seconds", and "chosen_step", the step of the weights;
            empty for a run without a training. It is stored beside the timing of the run.
        calls: Calls of the encodings of the model with every argument, each once; stored beside the timing too.

    Example:
        >>> import numpy as np
        >>> from posenc.workbench import RunResult
        >>> result = RunResult(metrics={"psnr": 31.2}, arrays={"errors": np.zeros(8)})
        >>> result.curves
        []
    """

    metrics: dict[str, float]
    curves: list[Row] = []
    arrays: dict[str, np.ndarray] = {}
    weights: dict[str, torch.Tensor] = {}
    trained: dict[str, float] = {}
    calls: tuple[str, ...] = ()


Execute = Callable[[RunSpec, Path, Reporter], RunResult]


class Job(NamedTuple):
    """One run of several that are trained as one batched model.

    Attributes:
        spec: Specification of the run.
        workdir: Folder of its checkpoint.
        report: Called with its progress: step, steps, samples per second and new measurements.

    Example:
        >>> from pathlib import Path
        >>> from posenc.workbench import Job, RunSpec
        >>> spec = RunSpec(study="toy", variant="rope", seed=7, preset="quick", settings={})
        >>> job = Job(spec, Path("work"), lambda step, steps, rate, metrics: None)
        >>> job.spec.seed
        7
    """

    spec: RunSpec
    workdir: Path
    report: Reporter


class Batched(NamedTuple):
    """Companion of a procedure that trains several of its runs as one batched model on one device.

    The companion of the function ``NAME`` is called ``NAME_batched`` and is in the same module.

    Attributes:
        group: Maps a run to a text; runs with equal texts can be batched.
        memory: Bytes of device memory that a run needs.
        execute: Returns one result per job, or the error that ended that job alone.

    Example:
        >>> from posenc.workbench import Batched, RunResult
        >>> def squares(jobs):
        ...     return [RunResult(metrics={"square": float(job.spec.seed**2)}) for job in jobs]
        >>> square_batched = Batched(group=lambda spec: "", memory=lambda spec: 1e6, execute=squares)
    """

    group: Callable[[RunSpec], str]
    memory: Callable[[RunSpec], float]
    execute: Callable[[Sequence[Job]], Sequence[RunResult | Exception]]


class Procedure(NamedTuple):
    """Training or measuring procedure: the function that executes a run, and the id under which results are stored.

    The id and the version are part of a run's identity. Moving or renaming the function changes neither.

    Attributes:
        id: Id of the procedure, such as "latin-squares.train".
        version: Version, raised by hand whenever results change.
        execute: Function ``(spec, workdir, report) -> RunResult`` at the top level of a module, so that a worker
            process can import it. A companion ``NAME_batched`` (see ``Batched``) may execute several runs as one model.

    Example:
        >>> from posenc.workbench import Procedure, RunResult
        >>> def square(spec, workdir, report):
        ...     return RunResult(metrics={"square": float(spec.seed**2)})
        >>> procedure = Procedure("toy.square", 1, square)
        >>> spec = procedure.spec(study="toy", variant="none", seed=3, preset="quick", settings={})
        >>> procedure.execute(spec, None, None).metrics
        {'square': 9.0}
    """

    id: str
    version: int
    execute: Execute

    @property
    def entry(self) -> str:
        """Location "module:function" of ``execute``, from which a worker process imports it."""
        return f"{self.execute.__module__}:{self.execute.__qualname__}"

    def spec(
        self,
        *,
        study: str,
        variant: str,
        seed: int,
        preset: str,
        settings: dict[str, Any],
        condition: str = "main",
        parents: Mapping[str, str] | None = None,
    ) -> RunSpec:
        """Make the specification of a run that this procedure executes.

        Args:
            study: Id of the study.
            variant: Label of the encoding.
            seed: Seed of the model and of all random numbers.
            preset: Name of the preset.
            settings: Everything else that decides the result, as plain JSON.
            condition: Label of the condition.
            parents: Role to identity, for the runs whose results this run reads; None for no such run.

        Returns:
            The specification.
        """
        return RunSpec(
            study=study,
            variant=variant,
            seed=seed,
            preset=preset,
            condition=condition,
            procedure=self.id,
            version=self.version,
            entry=self.entry,
            parents=dict(parents or {}),
            settings=settings,
        )

    def measuring(
        self, trained: RunSpec, settings: dict[str, Any], parents: Mapping[str, str] | None = None
    ) -> RunSpec:
        """Make the specification of a run that measures a trained run, under the labels of the trained run.

        Args:
            trained: The trained run; a parent with the role "trained".
            settings: Everything else that decides the result, as plain JSON.
            parents: Role to identity, for further runs whose results this run reads.

        Returns:
            The specification.
        """
        return self.spec(
            study=trained.study,
            variant=trained.variant,
            seed=trained.seed,
            preset=trained.preset,
            condition=trained.condition,
            parents={"trained": trained.identity, **(parents or {})},
            settings=settings,
        )
