"""PositionEncoder: a transformer of scikit-learn that turns coordinate columns into an encoding."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Self, get_args

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from typing_extensions import override

from posenc.adapt.compatibility import refuse_sites
from posenc.adapt.sklearn.coordinate_columns import CoordinateReader, Kind, fit_reader, is_time
from posenc.lookup.scheme_text import Specification, build, find, parse
from posenc.positions import Positions
from posenc.scheme import Scheme

Keep = Literal["none", "others", "all"]
DIM = 64
"""Least width of an encoding whose text gives none."""


class _NestedOptions(BaseEstimator):
    """Parameters of scikit-learn that read and set one entry of ``options`` as ``options__name``."""

    options: Mapping[str, Any] | None

    @override
    def get_params(self, deep: bool = True) -> dict[str, Any]:
        params = super().get_params(deep)
        options = self.options if deep and isinstance(self.options, Mapping) else {}
        return params | {f"options__{name}": value for name, value in options.items()}

    @override
    def set_params(self, **params: Any) -> Self:
        start = "options__"
        given = {name.removeprefix(start): params.pop(name) for name in list(params) if name.startswith(start)}
        if given:
            params["options"] = {**(params.get("options", self.options) or {}), **given}
        return super().set_params(**params)


class PositionEncoder(TransformerMixin, _NestedOptions):
    """Turn coordinate columns into the columns of an encoding, for any estimator of scikit-learn.

    A table may be a numpy array, or a data frame of pandas or polars. ``fit`` finds the kind of the coordinates and
    their box, and builds the scheme; the encoding of a row depends on nothing else.

    Args:
        scheme: A scheme as text, as "FourierFeatures(64, sigma=2)", or built. ``dim`` and ``axes`` that the text leaves
            out are filled in. Default: random Fourier features in the box of the points for "planar" and "sphere"; four
            harmonics of each period for "cyclic"; day, week and year with four harmonics for "time".
        columns: Names or numbers of the coordinate columns, in their order. Default: all columns.
        kind: "sphere" (longitude, latitude in degrees), "planar", "cyclic" or "time". Default: found by the names,
            types and ranges of the columns; "planar" if nothing else is found. A fitted encoder has it as ``kind_``.
        options: Options of the scheme by name, which have precedence over those in its text. A search sets one as
            ``options__sigma``. Default: none.
        period: Period of cyclic columns, one number or one for each. Default: found by name, as 24 for "hour".
        unit: Length of a unit of planar coordinates; by default the box of the fitted points becomes part of [0, 1].
            For times the name of a unit, as "hour"; by default "day", counted from 1970.
        keep: Columns that are passed on before the encoding: "others" (default), "all", with the coordinates, or
            "none". They must be numbers; missing values are passed on.
        random_state: Seed or generator of random schemes. Default: a new draw at each ``fit``.

    Raises:
        ValueError: At ``fit``: if the columns are not of the kind, or of several kinds; or if the scheme has trained
            parameters, acts elsewhere than at "embed", or reads another number of axes.

    Example:
        >>> import numpy as np
        >>> from posenc.adapt.sklearn import PositionEncoder
        >>> places = np.array([[13.4, 52.5], [179.9, -17.0], [-179.9, -17.0]])
        >>> encoder = PositionEncoder("SphericalHarmonics(3)", kind="sphere").fit(places)
        >>> encoder.transform(places).shape
        (3, 16)
    """

    n_features_in_: int

    def __init__(
        self,
        scheme: str | Scheme | None = None,
        *,
        columns: Sequence[str] | Sequence[int] | None = None,
        kind: Kind | None = None,
        options: Mapping[str, Any] | None = None,
        period: float | Sequence[float] | None = None,
        unit: float | str | None = None,
        keep: Keep = "others",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.scheme = scheme
        self.columns = columns
        self.kind = kind
        self.options = options
        self.period = period
        self.unit = unit
        self.keep = keep
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the kind of the coordinates and their box, and build the scheme.

        Args:
            X: Table ``(N, columns)``.
            y: Not used.

        Returns:
            The fitted encoder.

        Raises:
            ValueError: If the columns or the scheme are not what an encoder can use; see the class.
        """
        self.fit_scheme(X)
        if self.scheme_.claims.learned or any(True for _ in self.scheme_.parameters()):
            name = type(self.scheme_).__name__
            raise ValueError(
                f"{name} has trained parameters, and a transformer has no target to train them. Use it in "
                f"NetworkRegressor(PositionEncoder(..)) or NetworkClassifier, or a scheme without: posenc list"
            )
        return self

    def fit_scheme(self, X: Any) -> tuple[Positions, np.ndarray]:
        """Fit without refusing trained parameters, for an estimator that trains them.

        Args:
            X: Table ``(N, columns)``.

        Returns:
            Positions ``(N, axes)`` and the columns that are kept, ``(N, kept)``.

        Raises:
            ValueError: As ``fit``, but for trained parameters.
        """
        if self.keep not in get_args(Keep):
            raise ValueError(f"keep is {', '.join(map(repr, get_args(Keep)))}; got {self.keep!r}.")
        if self.options is not None and not isinstance(self.options, Mapping):
            raise ValueError(f"options are a dict of a scheme's options, as {{'sigma': 2.0}}; got {self.options!r}.")
        table = self._table(X, reset=True)
        self.columns_ = self._column_numbers()
        columns, names = self._picked(table, self.columns_), self._input_names(None)
        self.reader_ = fit_reader(columns, [names[i] for i in self.columns_], self.kind, self.period, self.unit)
        self.kind_: Kind = self.reader_.kind
        self.scheme_ = self._built(self.reader_)
        return self._read(table)

    def read(self, X: Any) -> tuple[Positions, np.ndarray]:
        """Positions and kept columns of a table.

        Args:
            X: Table ``(N, columns)`` with the columns of the fitted one.

        Returns:
            Positions ``(N, axes)`` and the columns that are kept, ``(N, kept)``.
        """
        check_is_fitted(self, "scheme_")
        return self._read(self._table(X, reset=False))

    @torch.no_grad()
    def transform(self, X: Any) -> np.ndarray:
        """The kept columns and the encoding of each row.

        Args:
            X: Table ``(N, columns)`` with the columns of the fitted one.

        Returns:
            Array ``(N, kept + width)``, float64.
        """
        pos, kept = self.read(X)
        rows = self.scheme_.embed(self.scheme_.prepare(pos))
        return np.concatenate([kept, rows.to(torch.float64).numpy()], 1)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the output: the kept columns, then ``columns_scheme_number``.

        Args:
            input_features: Names of the columns. Default: those of the fitted data frame, or x0, x1, ...

        Returns:
            Array of text.

        Raises:
            ValueError: If these are not the names of the fitted columns.
        """
        check_is_fitted(self, "scheme_")
        names = self._input_names(input_features)
        kept = [names[i] for i in self._kept_numbers()]
        start = "_".join([*(names[i] for i in self.columns_), type(self.scheme_).__name__.lower()])
        return np.array([*kept, *(f"{start}_{i}" for i in range(self.scheme_.out_dim))], dtype=object)

    # columns ---------------------------------------------------------------------------------------------------------
    def _table(self, X: Any, *, reset: bool) -> Any:
        """The table after scikit-learn's checks: a data frame, or an array of numbers or of times."""
        if hasattr(X, "columns") and hasattr(X, "shape"):
            validate_data(self, X, reset=reset, skip_check_array=True)
            if len(X) == 0:
                raise ValueError(
                    "the data frame has 0 rows (shape=(0, ..)), and a minimum of 1 is required. Pass rows."
                )
            return X
        times = self.kind == "time" or getattr(getattr(X, "dtype", None), "kind", "") == "M"
        if times:
            return validate_data(self, X, reset=reset, dtype=None, ensure_all_finite=False)
        return validate_data(self, X, reset=reset, dtype=np.float64, ensure_all_finite=self.columns is None)  # pyright: ignore

    def _column_numbers(self) -> tuple[int, ...]:
        names = list(self._input_names(None))
        if self.columns is None:
            return tuple(range(len(names)))
        several = isinstance(self.columns, Iterable) and not isinstance(self.columns, str)
        chosen: list[Any] = list(self.columns) if several else [self.columns]  # pyright: ignore[reportArgumentType]
        numbers = [names.index(each) if each in names else each for each in chosen]
        unknown = [each for each in numbers if not isinstance(each, int | np.integer) or not 0 <= each < len(names)]
        if unknown or not numbers or len(set(numbers)) < len(numbers):
            told = f"{unknown[0]!r} is not among" if unknown else f"{chosen!r} is no choice of"
            raise ValueError(
                f"`columns` names the coordinate columns, each once, by name or number; {told} the {len(names)} "
                f"columns {', '.join(map(str, names[:8]))}. n_features = {len(names)}."
            )
        return tuple(int(number) for number in numbers)  # pyright: ignore[reportArgumentType]

    def _kept_numbers(self) -> list[int]:
        if self.keep == "none":
            return []
        return [i for i in range(self.n_features_in_) if self.keep == "all" or i not in self.columns_]

    def _input_names(self, given: Any) -> list[str]:
        known = getattr(self, "feature_names_in_", None)
        if given is None:
            return [f"x{i}" for i in range(self.n_features_in_)] if known is None else list(known)
        if len(given) != self.n_features_in_:
            raise ValueError(
                f"input_features should have length equal to number of features ({self.n_features_in_}), got "
                f"{len(given)}"
            )
        if known is not None and list(given) != list(known):
            raise ValueError("input_features is not equal to feature_names_in_")
        return list(given)

    def _picked(self, table: Any, numbers: Sequence[int]) -> list[Any]:
        """Values of columns: numbers as float64, times and text of coordinates as they are."""
        names = self._input_names(None)
        if isinstance(table, np.ndarray):
            columns = {i: table[:, i] for i in numbers}
        else:
            columns = {i: table[table.columns[i]] for i in numbers}
            columns = {i: each if hasattr(each, "iloc") else np.asarray(each) for i, each in columns.items()}
        return [
            each if self._holds_times(each, i) else _numbers(each, names[i], i in self.columns_)
            for i, each in columns.items()
        ]

    def _holds_times(self, column: Any, number: int) -> bool:
        return number in self.columns_ and (self.kind == "time" or is_time(column, self._input_names(None)[number]))

    def _read(self, table: Any) -> tuple[Positions, np.ndarray]:
        columns, kept = self._picked(table, self.columns_), self._kept_numbers()
        pos = self.reader_.positions(columns, self.axes_)
        others = [i for i in kept if i not in self.columns_]
        own = dict(zip(self.columns_, self.reader_.values(columns).T, strict=True)) if len(others) < len(kept) else {}
        own |= dict(zip(others, self._picked(table, others), strict=True))
        values = np.zeros((pos.count, 0)) if not kept else np.stack([np.asarray(own[i], np.float64) for i in kept], 1)
        return pos, values

    # the scheme ------------------------------------------------------------------------------------------------------
    def _built(self, reader: CoordinateReader) -> Scheme:
        """The scheme of the encoder, checked; sets the number of axes that it reads."""
        if isinstance(self.scheme, Scheme):
            if self.options:
                raise ValueError("`options` are those of a scheme's text, and this scheme is built. Leave them out.")
            scheme = self.scheme
        else:
            scheme = self._from_text(reader)
        name = type(scheme).__name__
        refuse_sites(scheme, {"embed"}, "PositionEncoder writes the rows of an encoding", example="FourierFeatures(64)")
        if scheme.graph_view is not None or scheme.draws:
            what = "reads graphs" if scheme.graph_view else "draws new random numbers at each call"
            raise ValueError(f"{name} {what}, and PositionEncoder reads columns. Choose another scheme: posenc list")
        if getattr(scheme, "unit", "radians") == "degrees":
            raise ValueError(f"PositionEncoder passes radians to {name}. Leave unit='degrees' out of its options.")
        axes = reader.axes()
        self.axes_ = axes[0] if scheme.claims.axes is None else scheme.claims.axes
        if self.axes_ not in axes:
            raise ValueError(
                f"{name} here reads {self.axes_} axes, and kind={reader.kind!r} with n_features = "
                f"{len(reader.names)} has {' or '.join(map(str, axes))}. Choose a scheme or columns to fit: "
                f"posenc list --axes {axes[0]}"
            )
        return scheme

    def _from_text(self, reader: CoordinateReader) -> Scheme:
        if self.scheme is not None and not isinstance(self.scheme, str):
            raise ValueError(f"scheme is the text of a scheme, or a scheme; got {type(self.scheme).__name__}.")
        text = _default_text(reader) if self.scheme is None else self.scheme
        given = parse(text)
        specification = Specification(given.scheme, {**given.options, **(self.options or {})})
        parameters = inspect.signature(find(specification.scheme)).parameters
        axes = specification.options.get("axes", reader.axes()[0] if "axes" in parameters else 1)
        each = 2 * axes
        generator = torch.Generator().manual_seed(int(check_random_state(self.random_state).randint(2**31 - 1)))
        known = {"axes": axes, "dim": -(-DIM // each) * each, "generator": generator}
        return build(specification, known)


def _default_text(reader: CoordinateReader) -> str:
    """Scheme of a kind of coordinates for which the user named none."""
    if reader.kind == "cyclic":
        columns = len(reader.names)
        return f"Sinusoid({8 * columns}, axes={columns}, frequencies=[1, 2, 3, 4])"
    if reader.kind == "time":
        unit = reader.unit or "day"
        return f"Sinusoid(24, frequencies=periods('day', 'week', 'year', unit={unit!r}, harmonics=4))"
    return "FourierFeatures"


def _numbers(column: Any, name: str, coordinate: bool) -> np.ndarray:
    """A column as float64; ValueError for text and times, and for missing values of a coordinate."""
    given = np.asarray(column)
    if given.dtype.kind in "mM":
        raise ValueError(
            f"column {name!r} holds {'dates' if given.dtype.kind == 'M' else 'durations'}, which have no unit as "
            "numbers. Encode dates by PositionEncoder(kind='time') in a ColumnTransformer, divide durations by one of "
            "your choice, or write keep='none'."
        )
    try:
        if given.dtype.kind in "US" or (given.dtype.kind == "O" and any(isinstance(each, str) for each in given.flat)):
            raise ValueError("text")
        values = given.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"column {name!r} does not hold numbers. Choose the coordinates by columns=[..] and keep='none', encode "
            "such columns in a ColumnTransformer, or write kind='time' if these are times."
        ) from error
    missing = int((~np.isfinite(values)).sum())
    if coordinate and missing:
        raise ValueError(
            f"coordinates are finite; {missing} of {len(values)} values of column {name!r} are NaN or infinite. "
            "Leave these rows out, or fill them by SimpleImputer before."
        )
    return values
