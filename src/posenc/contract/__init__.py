"""Contract: the checks that every scheme must pass, those of posenc and yours.

    report = check(RoPE)              # every declared example
    report = check(my_scheme)         # one instance
    assert report.ok, report

A check is a function of this package that takes a ``Case``; the name of the function states the property. Each file is
one family of checks. ``checks`` finds them by walking the package.
"""

from __future__ import annotations

import contextlib
import dataclasses
import html
import importlib
import inspect
import itertools
import linecache
import pkgutil
import textwrap
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from posenc.contract.case import Case, ContractError, UnwrittenError, range_in_words
from posenc.contract.torch_errors import explain
from posenc.lookup import own_files
from posenc.lookup.scheme_text import build, find, parse
from posenc.scheme import Claims, Scheme

__all__ = ["Report", "Result", "check"]

FAR = 1e6  # Factor on positions that shows if a scheme acts only far away.
LONGEST = 300  # Longer messages of unexpected errors are cut to this number of characters.

Check = Callable[[Case], None]


@dataclasses.dataclass(frozen=True)
class Result:
    """The outcome of one check on one example of a scheme.

    Attributes:
        check: Name of the check, ``family.name``.
        case: The example as text, ``RoPE(head_dim=12)``; ``RoPE(..)`` for an instance.
        trouble: Description of the failure, empty if the check passed.
        unwritten: True if the check failed because a method of the scheme is not written yet.
        known: Reason of an expected failure, which the scheme lists in ``Scheme.faults``; else empty.
        left_out: Reason why the check was not made; else empty.

    Example:
        >>> from posenc import NoPE, check
        >>> result = check(NoPE, family="definition").results[0]
        >>> result.case, result.trouble
        ('NoPE()', '')
    """

    check: str
    case: str
    trouble: str = ""
    unwritten: bool = False
    known: str = ""
    left_out: str = ""


@dataclasses.dataclass(frozen=True)
class Report:
    """The outcomes of all checks that ``check`` ran. ``str(report)`` lists the failures.

    Attributes:
        results: One result per check and example.

    Example:
        >>> from posenc import NoPE, check
        >>> check(NoPE, family="definition").ok
        True
    """

    results: tuple[Result, ...]

    @property
    def ok(self) -> bool:
        """True if no check failed."""
        return not self.failures

    @property
    def failures(self) -> tuple[Result, ...]:
        """The results of the checks that failed, without known faults."""
        return tuple(result for result in self.results if result.trouble)

    @property
    def next(self) -> Result | None:
        """The failure to fix first: an unwritten method, then code that differs from its formula, then any other."""
        return min(self.failures, key=lambda r: (not r.unwritten, not r.check.startswith("definition.")), default=None)

    @property
    def counted(self) -> str:
        """A sentence with the number of checks that passed."""
        cases = len({result.case for result in self.results})
        of = f"{cases} example{'' if cases == 1 else 's'}"
        made = [result for result in self.results if not result.left_out]
        return f"{len(made) - len(self.failures)} of {len(made)} checks passed on {of}"

    def as_dict(self) -> dict[str, Any]:
        """Return the report as values that JSON can hold.

        Returns:
            ``ok``, and in ``results`` for each check its name, example, failure, known fault and the reason why it was
            left out, "" for none.
        """
        results = [
            {"check": r.check, "example": r.case, "failure": r.trouble, "known": r.known, "left_out": r.left_out}
            for r in self.results
        ]
        return {"ok": self.ok, "results": results}

    def __str__(self) -> str:
        known = (f"  {r.check}: {r.case} fails, as its `faults` state: {r.known}." for r in self.results if r.known)
        found = (f"  {result.check}: {result.case}: {result.trouble}" for result in self.failures)
        out = (f"  {r.check}: not checked: {r.left_out}." for r in self.results if r.left_out)
        return "\n".join([self.counted, *known, *found, *out])

    def _repr_html_(self) -> str:
        """Number of passed checks and a table of failures, for notebooks."""
        head = f"<p><strong>{html.escape(self.counted)}</strong></p>"
        cells = [(r.check, r.case, r.trouble) for r in self.failures]
        cells += [(r.check, r.case, f"known fault: {r.known}") for r in self.results if r.known]
        cells += [(r.check, r.case, f"not checked: {r.left_out}") for r in self.results if r.left_out]
        if not cells:
            return head
        rows = "".join("<tr>" + "".join(f"<td>{html.escape(text)}</td>" for text in row) + "</tr>" for row in cells)
        return f"{head}<table><tr><th>check</th><th>example</th><th>failure</th></tr>{rows}</table>"


def check(
    scheme: Scheme | type[Scheme] | str,
    *,
    compiling: bool = False,
    family: str | None = None,
    fast: bool = False,
    on_result: Callable[[int, int], None] | None = None,
) -> Report:
    """Run the contract on every example of a scheme's class, or on one instance.

    A failed check does not raise an error: it is a failure in the report.

    Args:
        scheme: A class (each of its ``examples`` is checked), an instance, or either as text: "RoPE",
            "RoPE(head_dim=64)", "my_scheme.py" or "mypkg.bias:MyBias".
        compiling: Also run the checks that call ``torch.compile``, which are slow. Default False.
        family: Run only the checks of this file of ``posenc.contract``, such as "definition". Default: all.
        fast: Check the first example of a class only. Default False.
        on_result: Function that is called after each check with the number of finished checks and of all. Default None.

    Returns:
        The report, with one result per check and example.

    Raises:
        ValueError: If ``scheme`` is not a scheme, is text that names none, or is a class without ``examples``; or if
            there is no such family.

    Example:
        >>> from posenc import ALiBi, check
        >>> report = check(ALiBi(heads=2), family="definition")
        >>> report.ok
        True
    """
    cases = _cases(scheme)[: 1 if fast else None]
    families = {one: one.__module__.rpartition(".")[2] for one in checks(compiling=compiling or family == "compiling")}
    if family is not None and family not in families.values():
        raise ValueError(
            f"there is no family of checks {family!r}. The families are {', '.join(dict.fromkeys(families.values()))}."
        )
    chosen = [one for one, of in families.items() if family in (None, of)]
    results = list[Result]()
    with one_thread():
        for case, one in itertools.product(cases, chosen):
            results.append(run(one, case))
            if on_result is not None:
                on_result(len(results), len(cases) * len(chosen))
    return Report(tuple(results))


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread: on tensors of a few values, several threads only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _cases(scheme: Any) -> list[Case]:
    if isinstance(scheme, str) and (own := own_files.classes_named(scheme)) is not None:
        return [case for kind in own for case in _cases(kind)]
    if isinstance(scheme, str):
        scheme = own_files.with_names(scheme)
        parsed = parse(scheme)
        scheme = build(parsed, {}) if "(" in scheme else find(parsed.scheme)
    if isinstance(scheme, Scheme):
        case = Case(type(scheme), {}, scheme)
        _refuse_effect_far_away(case)
        return [case]
    if not (inspect.isclass(scheme) and issubclass(scheme, Scheme)):
        raise ValueError(
            "check takes a scheme: an instance as RoPE(64), its class, or either as text; got "
            f"{scheme.__name__ if inspect.isclass(scheme) else type(scheme).__name__}. Write check(RoPE)."
        )
    if not scheme.examples:
        raise ValueError(
            f"{scheme.__name__} declares no `examples`. Write a tuple of constructor arguments, as "
            "examples = ({'dim': 12}, {'dim': 12, 'base': 100.0}), with every option in one of them."
        )
    return [Case(scheme, options) for options in scheme.examples]


def _refuse_effect_far_away(case: Case) -> None:
    """Raise ValueError for a scheme that acts at farther positions alone than those at which claims are measured."""
    from posenc.contract.claims import acting_sites

    try:
        pos, scheme = case.positions(), case.make()
        far = dataclasses.replace(pos, coords=FAR * pos.coords)
        if acting_sites(case, scheme, pos) or not acting_sites(case, scheme, far):
            return
    except Exception:  # the checks report an error of the scheme
        return
    name, examples = case.kind.__name__, case.kind.examples
    call = ", ".join(f"{key}={value!r}" for key, value in examples[0].items()) if examples else ""
    advice = f', such as posenc check "{name}({call})"; posenc check {name} checks every example' if examples else ""
    raise ValueError(
        f"{name} with these arguments changes nothing at the positions of the contract, which are at most "
        f"{float(pos.coords.abs().max()):g}, and acts at farther ones: its claims cannot be measured. Check a call "
        f"that acts at small positions{advice}."
    )


def checks(*, compiling: bool = False) -> Sequence[Check]:
    """Every check, ordered by family.

    Args:
        compiling: Also those that call ``torch.compile``. Default False.

    Returns:
        Functions that take a ``Case`` and raise ContractError for a scheme that fails.
    """
    found: list[Check] = []
    for file in pkgutil.iter_modules(__path__):
        if file.name == "compiling" and not compiling:
            continue
        module = importlib.import_module(f"{__name__}.{file.name}")
        found += [
            value
            for name, value in vars(module).items()
            if inspect.isfunction(value)
            and value.__module__ == module.__name__
            and not name.startswith("_")
            and list(inspect.signature(value).parameters) == ["case"]
        ]
    return found


@dataclasses.dataclass(frozen=True)
class Measured:
    """One claim of a scheme's class, compared with its measurement.

    Attributes:
        name: Name of the claim, a field of ``Claims``.
        claimed: The claimed values of the examples, as text.
        trouble: Description of the disagreement, empty if the measurement agrees.
    """

    name: str
    claimed: str
    trouble: str = ""


def claims_measured(kind: type[Scheme]) -> list[Measured]:
    """Measure every claim of a scheme's class on each of its examples.

    Args:
        kind: A class that lists ``examples``.

    Returns:
        One comparison per field of ``Claims``.
    """
    cases = [Case(kind, options) for options in kind.examples]
    with one_thread():
        return _measured(cases)


def _measured(cases: Sequence[Case]) -> list[Measured]:
    from posenc.contract import claims

    found = []
    for field in dataclasses.fields(Claims):
        claimed = list(dict.fromkeys(_words(getattr(case.claims, field.name)) for case in cases))
        measure = next(
            value
            for name, value in vars(claims).items()
            if name.startswith(field.name[:4]) and name.endswith("_as_claimed")
        )
        troubles = [result.trouble for result in (run(measure, case) for case in cases) if result.trouble]
        found.append(Measured(field.name, ", or ".join(claimed), troubles[0] if troubles else ""))
    return found


def _words(value: object) -> str:
    if isinstance(value, frozenset):
        return ", ".join(sorted(map(str, value))) or "none"
    if isinstance(value, tuple):
        return range_in_words(value)
    if value is None or isinstance(value, bool):
        return "any" if value is None else "yes" if value else "no"
    return str(value)


def run(one: Check, case: Case) -> Result:
    """Run one check on one case.

    An error that the scheme raises is a failure. So is a check that passes although
    ``Scheme.faults`` lists it.

    Args:
        one: The check.
        case: The example of a scheme.

    Returns:
        The outcome.
    """
    found = _run(one, case)
    why = case.faults.get(found.check, "")
    if why and found.trouble:
        return dataclasses.replace(found, trouble="", unwritten=False, known=why)
    return dataclasses.replace(found, trouble=f"passes, but `faults` lists it as failing: {why}.") if why else found


def _run(one: Check, case: Case) -> Result:
    name = f"{one.__module__.rpartition('.')[2]}.{one.__name__}"
    try:
        one(case)
    except ContractError as error:
        return Result(name, str(case), str(error), isinstance(error, UnwrittenError))
    except NotImplementedError as error:
        if message := _unwritten(error, case):
            return Result(name, str(case), message, unwritten=True)
        return Result(name, str(case), _cut_short(error))
    except Exception as error:
        return Result(name, str(case), _explained(error, case))
    return Result(name, str(case))


def _cut_short(error: Exception) -> str:
    return f"{type(error).__name__}: {textwrap.shorten(' '.join(str(error).split()), LONGEST, placeholder=' ..')}"


def _explained(error: Exception, case: Case) -> str:
    """Message of an error with its line in the scheme's own file, and an explanation of an error of torch."""
    try:
        words = explain(error, case)
    except Exception:  # the scheme fails in another way too
        words = ""
    own = [
        f" ({Path(frame.f_code.co_filename).name}, line {line})"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_globals.get("__name__") == case.kind.__module__
    ]
    raised = f"{_cut_short(error).rstrip('.')}{own[-1] if own else ''}"
    return f"{raised}. {words}" if words else raised if own else _cut_short(error)


def _unwritten(error: NotImplementedError, case: Case) -> str:
    """Message and line of a NotImplementedError of an unwritten method; empty for any other cause."""
    *_, (frame, line) = traceback.walk_tb(error.__traceback__)
    path, module = frame.f_code.co_filename, frame.f_globals.get("__name__")
    if module == Scheme.__module__:
        return f"{error}."
    linecache.checkcache(path)  # the file may have been edited since its import
    own = module == case.kind.__module__ and linecache.getline(path, line).lstrip().startswith("raise")
    return f"{error} ({Path(path).name}, line {line})" if own else ""
