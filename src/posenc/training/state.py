"""Where a training stands: what has been measured, and all that a checkpoint holds for it to go on unchanged."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor, nn

from posenc.training.checkpoint import CheckpointError
from posenc.training.config import TrainingConfig
from posenc.training.distributed import Place, Team
from posenc.training.fit import Fit, mixed

ALONE = Team()


@dataclasses.dataclass
class State:
    """Where a run stands; all of it is in a checkpoint."""

    step: int = 0
    loss_sum: float = 0.0
    loss_steps: int = 0
    seconds: float = 0.0
    average: Tensor | None = None
    plateau: dict[str, float] | None = None
    curve: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    @property
    def lr(self) -> float | None:
        """What a plateau has left of the rate, None without one."""
        return None if self.plateau is None else self.plateau["lr"]


def measure(fit: Fit, config: TrainingConfig, state: State, epoch: int, team: Team = ALONE) -> None:
    """Adds what is measured to the curve; of several processes the first measures."""
    fit.model.train(config.evaluate_in_train_mode)
    found: dict[str, float] = {}
    if team.leads:
        with torch.no_grad():
            found = fit.evaluate()
    fit.model.train()
    team.meet(Place.MEASURE)
    found = team.share(found)
    if state.loss_steps:
        found = {**found, "loss_train": state.loss_sum / state.loss_steps}
    if fit.draw is not None:
        found = {**found, "seconds": state.seconds}
    state.loss_sum, state.loss_steps = 0.0, 0
    state.curve += [{"epoch": epoch, "metric": name, "value": float(value)} for name, value in found.items()]


def latest(curve: list[dict[str, Any]]) -> dict[str, float]:
    return {row["metric"]: row["value"] for row in curve if row["epoch"] == curve[-1]["epoch"]}


def signature(fit: Fit, config: TrainingConfig, seed: int) -> dict[str, Any]:
    """What gives the number of a step its meaning: a checkpoint goes on under the same alone."""
    return {"samples": fit.samples, "batch": config.batch, "seed": seed, "optimiser": config.optimiser}


def freeze(
    model: dict[str, Any],
    optimiser: dict[str, Any],
    state: State,
    signed: dict[str, Any],
    others: list[dict[str, Tensor]] | None = None,
) -> dict[str, Any]:
    """What a checkpoint holds: two ``state_dict()``, the generators, where the run stands and what run it is.

    others: the generators of the other processes of the run.
    """
    return {
        "model": model,
        "optimiser": optimiser,
        "random": torch.get_rng_state(),
        "random_cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "random_others": others or [],
        "state": dataclasses.asdict(state),
        "signed": signed,
    }


def generators() -> dict[str, Tensor]:
    """The states of this process's own generators."""
    own = {"cpu": torch.get_rng_state()}
    return own | ({"cuda": torch.cuda.get_rng_state()} if torch.cuda.is_available() else {})


def restore(
    saved: dict[str, Any],
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    state: State,
    signed: dict[str, Any],
    team: Team = ALONE,
) -> None:
    """The run goes on as saved. Raises CheckpointError for a checkpoint of another run or of another model."""
    for name, value in saved.get("signed", signed).items():
        if signed[name] != value:
            raise CheckpointError(
                f"The checkpoint is of another training: its {name} is {value}, and this one's {signed[name]}. "
                "Give this training a folder of its own, or delete that checkpoint."
            )
    try:
        model.load_state_dict(saved["model"])
        optimiser.load_state_dict(saved["optimiser"])
    except (RuntimeError, ValueError, KeyError) as error:
        reason = " ".join(str(error).split())[:200]
        raise CheckpointError(
            f"The checkpoint is of another model ({reason}). Give this training a folder of its own, or delete it."
        ) from error
    for name, value in saved["state"].items():
        setattr(state, name, value)
    if team.leads:
        torch.set_rng_state(saved["random"])
        for device, random in enumerate(saved["random_cuda"][: torch.cuda.device_count()]):
            torch.cuda.set_rng_state(random, device)
        return
    others = saved.get("random_others", [])
    if team.rank > len(others):  # the run had fewer processes then
        begin_apart(team, signed["seed"], state.step)
        return
    own = others[team.rank - 1]
    torch.set_rng_state(own["cpu"])
    if "cuda" in own and torch.cuda.is_available():
        torch.cuda.set_rng_state(own["cuda"])


def begin_apart(team: Team, seed: int, step: int) -> None:
    """The first process keeps its generators, which decide what one alone would draw; the others get their own."""
    if not team.leads:
        torch.manual_seed(mixed(seed, step, -team.rank))
