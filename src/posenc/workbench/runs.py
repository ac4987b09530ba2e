"""Runs: the specification of one model and one seed, the procedure that executes it, and its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from posenc.workbench.identity import identity

if TYPE_CHECKING:
    import numpy as np
    import torch

Row = dict[str, Any]
Reporter = Callable[[int, int, float, dict[str, float]], None]
"""Called with step, steps, samples per second and new measurements."""


class RunSpec(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Specification of one run: one model, one seed. ``identity`` addresses its result.

    Attributes:
        study: Id of the study.
        variant: Label of the encoding in the study, such as "learned-0.2". Outside the identity.
        seed: Seed of the model and of everything that is drawn.
        preset: Scale that asked for it. Outside the identity.
        condition: Label of what is varied beside the encoding. Outside the identity.
        procedure: Id of the procedure that executes it, such as "latin-squares.train".
        version: Version of the procedure.
        entry: "module:function" of the code that executes it. Outside the identity.
        parents: Role to identity, for the runs whose results this one reads.
        settings: Everything else that decides the result, as plain JSON.

    The names in stored files (``scheme``, ``setting``, ``work``) are constants of the format.
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
        """Digest of what decides the result; see ``posenc.workbench.identity``.

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
        """The same run under other labels (a row's first columns)."""
        return msgspec.structs.replace(
            self, preset=labels["preset"], condition=labels["setting"], variant=labels["scheme"]
        )


class RunResult(msgspec.Struct, kw_only=True):
    """Result of a run: metrics by name, rows of learning curves, named arrays and the weights."""

    metrics: dict[str, float]
    curves: list[Row] = []
    arrays: dict[str, np.ndarray] = {}
    weights: dict[str, torch.Tensor] = {}


Execute = Callable[[RunSpec, Path, Reporter], RunResult]


class Job(NamedTuple):
    """One run of several that are trained as one batched model: its specification, folder and reporter."""

    spec: RunSpec
    workdir: Path
    report: Reporter


class Batched(NamedTuple):
    """How runs of one procedure are trained as one batched model on one device.

    group: runs with equal text can be batched. memory: bytes of the device that a run takes. execute: one result per
    job, or the error that ended that job alone.
    """

    group: Callable[[RunSpec], str]
    memory: Callable[[RunSpec], float]
    execute: Callable[[Sequence[Job]], Sequence[RunResult | Exception]]


class Procedure(NamedTuple):
    """A training or measuring procedure: the code behind a run and the id under which its results are stored.

    id, version: constants of the identity. The version is raised by hand whenever results change; a move or a renaming
    changes neither. execute: executes one run; a companion ``NAME_batched`` beside it executes several as one model.
    """

    id: str
    version: int
    execute: Execute

    @property
    def entry(self) -> str:
        """Location of ``execute``, by which a worker process finds it."""
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
        """Specification of a run that this procedure executes."""
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
        """Specification of a run that measures a trained one, under its labels; parents: further runs by role."""
        return self.spec(
            study=trained.study,
            variant=trained.variant,
            seed=trained.seed,
            preset=trained.preset,
            condition=trained.condition,
            parents={"trained": trained.identity, **(parents or {})},
            settings=settings,
        )
