"""State of a training: learning curves, and the content of a checkpoint for an exact resume."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import torch
from torch import Tensor, nn

from posenc.measure.evaluation_mode import evaluation_mode
from posenc.workbench.training.checkpoint import CheckpointError
from posenc.workbench.training.config import TrainingConfig
from posenc.workbench.training.distributed import ProcessGroup, SyncPoint
from posenc.workbench.training.fit import Fit, mixed_seed

ALONE = ProcessGroup()


@dataclasses.dataclass
class State:
    """State of a training besides weights and optimizer; a checkpoint stores all of it.

    Attributes:
        step: number of steps done.
        loss_sum: sum of the training losses since the last measurement.
        loss_steps: number of those losses.
        seconds: time spent in steps, in seconds.
        average: running sum of the moving average of the weights.
        plateau: state of the plateau schedule.
        best: weights at the best evaluation so far, where the configuration chooses that step.
        curve: measured rows ``{epoch, metric, value}``.
    """

    step: int = 0
    loss_sum: float = 0.0
    loss_steps: int = 0
    seconds: float = 0.0
    average: Tensor | None = None
    plateau: dict[str, float] | None = None
    best: dict[str, Tensor] | None = None
    curve: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    @property
    def lr(self) -> float | None:
        """Learning rate after reductions by a plateau; None without one."""
        return None if self.plateau is None else self.plateau["lr"]


def begin_training_mode(model: nn.Module) -> None:
    """Set a model in evaluation mode to training mode; one in training mode keeps the modes of its modules."""
    if not model.training:
        model.train()


def measure(fit: Fit, config: TrainingConfig, state: State, epoch: int, team: ProcessGroup = ALONE) -> None:
    """Evaluate the model and add the metrics to the curves. Of several processes the first evaluates."""
    metrics: dict[str, float] = {}
    if team.leads:
        with torch.no_grad() if config.evaluate_in_train_mode else evaluation_mode(fit.model):
            metrics = fit.evaluate()
    team.meet(SyncPoint.MEASURE)
    metrics = team.share(metrics)
    if state.loss_steps:
        metrics = {**metrics, "loss_train": state.loss_sum / state.loss_steps}
    if fit.draw is not None:
        metrics = {**metrics, "seconds": state.seconds}
    state.loss_sum, state.loss_steps = 0.0, 0
    state.curve += [{"epoch": epoch, "metric": name, "value": float(value)} for name, value in metrics.items()]


def keep_best(fit: Fit, config: TrainingConfig, state: State, epoch: int) -> None:
    """Keep the present weights if the measurement of this epoch is the best one so far."""
    if config.best is not None and epoch > 0 and config.best.epoch(state.curve) == epoch:
        state.best = {name: value.detach().clone() for name, value in fit.model.state_dict().items()}


def amount(fit: Fit, config: TrainingConfig, state: State) -> dict[str, float]:
    """Return what was trained: steps, examples, seconds in steps, and the step of the final weights."""
    passes, rest = divmod(state.step, fit.per_epoch(config.batch))
    examples = state.step * config.batch
    if fit.draw is None:
        examples = passes * fit.samples + min(rest * config.batch, fit.samples)
    chosen = state.step if config.best is None else config.best.epoch(state.curve) * fit.per_epoch(config.batch)
    return {"steps": state.step, "examples": examples, "training_seconds": state.seconds, "chosen_step": chosen}


def latest(curve: list[dict[str, Any]]) -> dict[str, float]:
    """Return the metrics of the last measured epoch by name."""
    return {row["metric"]: row["value"] for row in curve if row["epoch"] == curve[-1]["epoch"]}


def signature(fit: Fit, config: TrainingConfig, seed: int) -> dict[str, Any]:
    """Return the settings that must be equal to continue a checkpoint: all but the length of the training."""
    settings = msgspec.to_builtins(config)
    kept = {name: value for name, value in settings.items() if name not in ("epochs", "seconds")}
    return {"samples": fit.samples, "seed": seed, **kept}


def checkpoint_content(
    model: dict[str, Any],
    optimizer: dict[str, Any],
    state: State,
    signed: dict[str, Any],
    others: list[dict[str, Tensor]] | None = None,
) -> dict[str, Any]:
    """Collect the content of a checkpoint.

    Args:
        model: ``state_dict`` of the model.
        optimizer: ``state_dict`` of the optimizer.
        state: state of the training.
        signed: the settings of ``signature``.
        others: random states of the other processes of the run.

    Returns:
        The content of the checkpoint, which also holds this process's random states.
    """
    return {
        "model": model,
        "optimiser": optimizer,
        "random": torch.get_rng_state(),
        "random_cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "random_others": others or [],
        "state": dataclasses.asdict(state),
        "signed": signed,
    }


def generators() -> dict[str, Tensor]:
    """Return the states of this process's random generators."""
    own = {"cpu": torch.get_rng_state()}
    return own | ({"cuda": torch.cuda.get_rng_state()} if torch.cuda.is_available() else {})


def restore(
    saved: dict[str, Any],
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    state: State,
    signed: dict[str, Any],
    team: ProcessGroup = ALONE,
) -> None:
    """Restore a training from the content of a checkpoint.

    Args:
        saved: content of the checkpoint.
        model: model to restore.
        optimizer: optimizer to restore.
        state: state to restore.
        signed: the settings of ``signature`` of this training.
        team: the processes of the run.

    Raises:
        CheckpointError: a checkpoint of another training or another model.
    """
    for name, value in saved.get("signed", signed).items():
        if signed[name] != value:
            raise CheckpointError(
                f"The checkpoint is of another training: its {name} is {value}, and this one's {signed[name]}. "
                "Give this training a folder of its own, or delete that checkpoint."
            )
    try:
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimiser"])
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
    if team.rank > len(others):  # the checkpoint was written by fewer processes
        seed_other_processes(team, signed["seed"], state.step)
        return
    own = others[team.rank - 1]
    torch.set_rng_state(own["cpu"])
    if "cuda" in own and torch.cuda.is_available():
        torch.cuda.set_rng_state(own["cuda"])


def seed_other_processes(team: ProcessGroup, seed: int, step: int) -> None:
    """Seed the generators of all processes but the first, so that they draw different numbers.

    The first process keeps its generators, so that it draws the same numbers as a single process.
    """
    if not team.leads:
        torch.manual_seed(mixed_seed(seed, step, -team.rank))
