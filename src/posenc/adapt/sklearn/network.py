"""NetworkRegressor and NetworkClassifier: a small network on an encoding, which trains the scheme with it."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.preprocessing import StandardScaler
from sklearn.utils import assert_all_finite, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, column_or_1d, validate_data
from torch import Tensor, nn
from typing_extensions import override

from posenc.adapt.sklearn.position_encoder import PositionEncoder
from posenc.positions import Positions
from posenc.scheme import Scheme
from posenc.whole_numbers import are_whole

Loss = Callable[[Tensor, Tensor], Tensor]


class EncodedNetwork(nn.Module):
    """A multilayer perceptron on the rows of a scheme and further columns.

    Args:
        scheme: The scheme, which is trained with the network.
        kept: Number of further columns.
        hidden: Width of each hidden layer.
        outputs: Number of outputs.
    """

    def __init__(self, scheme: Scheme, kept: int, hidden: Sequence[int], outputs: int) -> None:
        super().__init__()
        self.scheme = scheme
        widths = [scheme.out_dim + kept, *hidden]
        layers: list[nn.Module] = []
        for before, width in itertools.pairwise(widths):
            layers += [nn.Linear(before, width), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(widths[-1], outputs))

    @override
    def forward(self, coords: Tensor, kept: Tensor) -> Tensor:
        """Outputs of N rows.

        Args:
            coords: Coordinates ``(N, axes)``, float64.
            kept: Further columns ``(N, kept)``, in the dtype of the network.

        Returns:
            Tensor ``(N, outputs)``.
        """
        rows = self.scheme.embed(self.scheme.prepare(Positions(coords)))
        return self.layers(torch.cat([rows.to(kept.dtype), kept], -1))


def _refuse_missing(kept: np.ndarray) -> None:
    missing = int((~np.isfinite(kept)).sum())
    if missing:
        raise ValueError(
            f"a network reads finite numbers; the columns besides the coordinates have {missing} missing or infinite "
            "values. Fill them by SimpleImputer before, or leave the columns out: PositionEncoder(keep='none')."
        )


class _NetworkEstimator(BaseEstimator):
    """Base class of both estimators: parameters, checks of the table, training."""

    def __init__(
        self,
        encoder: PositionEncoder | None = None,
        *,
        hidden: Sequence[int] = (128, 128),
        steps: int = 1000,
        batch_size: int = 256,
        learning_rate: float = 3e-3,
        weight_decay: float = 0.0,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.encoder = encoder
        self.hidden = hidden
        self.steps = steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.random_state = random_state

    def _fit(self, X: Any, target: np.ndarray, outputs: int, loss: Loss) -> None:
        """Fit the encoder, then train its scheme and the network together."""
        self._refuse_parameters()
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        encoder: Any = PositionEncoder() if self.encoder is None else clone(self.encoder)
        self.encoder_: PositionEncoder = encoder
        if self.encoder_.random_state is None:
            self.encoder_.set_params(random_state=seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            pos, kept = self.encoder_.fit_scheme(X)
            _refuse_missing(kept)
            self.scaler_ = StandardScaler().fit(kept) if kept.shape[1] else None
            scheme = copy.deepcopy(self.encoder_.scheme_)  # a scheme that the user built keeps its values
            self.network_ = EncodedNetwork(scheme, kept.shape[1], self.hidden, outputs).float()
            self.encoder_.scheme_ = scheme
            self.loss_curve_ = self._train(pos.coords, torch.tensor(self._scaled(kept)).float(), target, loss)
        self.network_.double().requires_grad_(False)  # outputs of a row are then equal in every batch

    def _train(self, coords: Tensor, kept: Tensor, target: np.ndarray, loss: Loss) -> list[float]:
        """AdamW with a cosine schedule. Returns the mean loss of each hundredth of the steps."""
        wanted = torch.tensor(target)
        wanted = wanted.float() if wanted.is_floating_point() else wanted
        optimizer = torch.optim.AdamW(self.network_.parameters(), lr=self.learning_rate, weight_decay=self.weight_decay)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, self.steps)
        size, order, losses = min(self.batch_size, len(coords)), torch.empty(0, dtype=torch.long), []
        for _ in range(self.steps):
            if len(order) < size:
                order = torch.cat([order, torch.randperm(len(coords))])
            rows, order = order[:size], order[size:]
            value = loss(self.network_(coords[rows], kept[rows]), wanted[rows])
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            schedule.step()
            losses.append(value.detach())
        return [float(part.mean()) for part in torch.stack(losses).split(math.ceil(self.steps / 100))]

    @torch.no_grad()
    def _outputs(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "network_")
        pos, kept = self.encoder_.read(X)
        _refuse_missing(kept)
        return self.network_(pos.coords, torch.tensor(self._scaled(kept))).numpy()

    def _scaled(self, kept: np.ndarray) -> np.ndarray:
        return kept if self.scaler_ is None else np.asarray(self.scaler_.transform(kept))

    def _refuse_parameters(self) -> None:
        if self.encoder is not None and not isinstance(self.encoder, PositionEncoder):
            raise ValueError(
                f"encoder is a PositionEncoder, or None for one of all columns; got {type(self.encoder).__name__}. "
                "Write PositionEncoder('SIREN(64)')."
            )
        widths = self.hidden if isinstance(self.hidden, Iterable) else ()
        if widths is not self.hidden or not are_whole(*widths):
            raise ValueError(f"hidden is the width of each hidden layer, as (128, 128); got {self.hidden!r}.")
        whole = {"steps": self.steps, "batch_size": self.batch_size}
        small = next((name for name, value in whole.items() if not are_whole(value)), None)
        if small is not None:
            raise ValueError(f"{small} is a whole number from 1; got {whole[small]!r}. As {small}=256.")
        if not 0 < self.learning_rate < math.inf:
            raise ValueError(f"learning_rate is a positive number; got {self.learning_rate!r}. As learning_rate=0.003.")


class NetworkRegressor(RegressorMixin, _NetworkEstimator):
    """Regression by a small network on an encoding of coordinates; both are trained.

    The target is standardized for the training. The loss is the mean squared error, the optimizer AdamW with a cosine
    schedule, on the CPU.

    Args:
        encoder: Coordinate columns and their scheme, which may have trained parameters. Its ``keep`` names the further
            columns that the network reads, standardized; "others" by default. Default: a ``PositionEncoder`` of all
            columns.
        hidden: Width of each hidden layer. Default: two of 128.
        steps: Number of steps of the training. Default 1000.
        batch_size: Rows of a step. Default 256.
        learning_rate: Learning rate of the first step. Default 0.003.
        weight_decay: Weight decay of AdamW. Default 0.
        random_state: Seed or generator of initial values and batches. Default: a new draw at each ``fit``.

    Example:
        >>> import numpy as np
        >>> from posenc.adapt.sklearn import NetworkRegressor, PositionEncoder
        >>> X = np.linspace(0, 1, 200)[:, None]
        >>> y = np.sin(9 * X[:, 0])
        >>> model = NetworkRegressor(PositionEncoder("SIREN(32)"), steps=200, random_state=0).fit(X, y)
        >>> bool(model.score(X, y) > 0.9)
        True
    """

    __init__ = _NetworkEstimator.__init__  # whose arguments this class documents

    def fit(self, X: Any, y: Any) -> Self:
        """Train the network and the scheme.

        Args:
            X: Table ``(N, columns)``, an array or a data frame.
            y: Values ``(N,)``.

        Returns:
            The fitted estimator.
        """
        validate_data(self, X, y, skip_check_array=True)
        values = column_or_1d(check_array(y, ensure_2d=False, dtype="float64", input_name="y"), warn=True)
        check_consistent_length(X, values)
        self.mean_, self.scale_ = float(values.mean()), float(values.std()) or 1.0
        target = (values - self.mean_) / self.scale_
        self._fit(X, target, 1, lambda output, wanted: nn.functional.mse_loss(output[:, 0], wanted))
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predicted values.

        Args:
            X: Table ``(N, columns)``.

        Returns:
            Array ``(N,)``, in the unit of the target.
        """
        return self._outputs(X)[:, 0] * self.scale_ + self.mean_


class NetworkClassifier(ClassifierMixin, _NetworkEstimator):
    """Classification by a small network on an encoding of coordinates; both are trained.

    The loss is the cross-entropy, the optimizer AdamW with a cosine schedule, on the CPU.

    Args:
        encoder: Coordinate columns and their scheme, which may have trained parameters. Its ``keep`` names the further
            columns that the network reads, standardized; "others" by default. Default: a ``PositionEncoder`` of all
            columns.
        hidden: Width of each hidden layer. Default: two of 128.
        steps: Number of steps of the training. Default 1000.
        batch_size: Rows of a step. Default 256.
        learning_rate: Learning rate of the first step. Default 0.003.
        weight_decay: Weight decay of AdamW. Default 0.
        random_state: Seed or generator of initial values and batches. Default: a new draw at each ``fit``.

    Example:
        >>> import numpy as np
        >>> from posenc.adapt.sklearn import NetworkClassifier, PositionEncoder
        >>> X = np.arange(24.0)[:, None]
        >>> night = np.where((X[:, 0] < 6) | (X[:, 0] > 21), "night", "day")
        >>> model = NetworkClassifier(PositionEncoder(kind="cyclic", period=24), steps=100, random_state=0)
        >>> model.fit(X, night).predict([[23.0], [24.0], [12.0]])
        array(['night', 'night', 'day'], dtype='<U5')
    """

    __init__ = _NetworkEstimator.__init__  # whose arguments this class documents

    def fit(self, X: Any, y: Any) -> Self:
        """Train the network and the scheme.

        Args:
            X: Table ``(N, columns)``, an array or a data frame.
            y: Classes ``(N,)``, numbers or text.

        Returns:
            The fitted estimator.
        """
        validate_data(self, X, y, skip_check_array=True)
        labels = column_or_1d(y, warn=True)
        assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        check_consistent_length(X, labels)
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        self._fit(X, numbers.astype(np.int64), len(self.classes_), nn.functional.cross_entropy)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each class.

        Args:
            X: Table ``(N, columns)``.

        Returns:
            Array ``(N, classes)`` in the order of ``classes_``.
        """
        return torch.tensor(self._outputs(X)).softmax(-1).numpy()

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class.

        Args:
            X: Table ``(N, columns)``.

        Returns:
            Array ``(N,)`` of values of the target.
        """
        numbers = self._outputs(X).argmax(1)
        return self.classes_[numbers]
