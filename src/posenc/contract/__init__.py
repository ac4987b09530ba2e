"""What every scheme must satisfy: one small file a family of checks, run for anybody's scheme as for ours.

    report = check(RoPE)              # every declared example
    report = check(my_scheme)         # one instance
    assert report.ok, report

A check is a function of this package that takes a ``Case``; its name is its sentence. The files are walked.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import linecache
import pkgutil
import textwrap
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from posenc.contract.case import Case, ContractError, UnwrittenError, range_in_words
from posenc.scheme import Claims, Scheme
from posenc.specification import build, find, parse

LONGEST = 300  # characters of an error that is not the contract's own

Check = Callable[[Case], None]


@dataclasses.dataclass(frozen=True)
class Result:
    """One check on one case; ``trouble`` is empty where it passed. unwritten: it met a part that is not there yet.
    known: why it fails, where the scheme says that it does."""

    check: str
    case: str
    trouble: str = ""
    unwritten: bool = False
    known: str = ""


@dataclasses.dataclass(frozen=True)
class Report:
    """Every check that was run."""

    results: tuple[Result, ...]

    @property
    def ok(self) -> bool:
        return not self.failures

    @property
    def failures(self) -> tuple[Result, ...]:
        return tuple(result for result in self.results if result.trouble)

    @property
    def next(self) -> Result | None:
        """What to mend first: a part that is not written, then code that differs from its formula, then the rest."""
        return min(self.failures, key=lambda r: (not r.unwritten, not r.check.startswith("definition.")), default=None)

    @property
    def counted(self) -> str:
        """How many checks passed."""
        cases = len({result.case for result in self.results})
        return f"{len(self.results) - len(self.failures)} of {len(self.results)} checks passed on {cases} examples"

    def __str__(self) -> str:
        known = (f"  {r.check}: {r.case} fails as it says: {r.known}." for r in self.results if r.known)
        found = (f"  {result.check}: {result.case}: {result.trouble}" for result in self.failures)
        return "\n".join([self.counted, *known, *found])


def check(scheme: Scheme | type[Scheme] | str, *, compiling: bool = False, family: str | None = None) -> Report:
    """Run the contract on every example of a scheme's class, or on one instance as it is.

    scheme: also as text, "RoPE" for the class and "RoPE(head_dim=64)" for an instance. compiling: also the checks that
    call ``torch.compile``, which are slow. family: only the checks of that file, as "definition". Raises ValueError for
    a class without examples, text that names no scheme, and anything else.
    """
    cases = _cases(scheme)
    chosen = [one for one in checks(compiling=compiling) if family in (None, one.__module__.rpartition(".")[2])]
    return Report(tuple(run(one, case) for case in cases for one in chosen))


def _cases(scheme: Any) -> list[Case]:
    if isinstance(scheme, str):
        told = parse(scheme)
        scheme = build(told, {}) if "(" in scheme else find(told.scheme)
    if isinstance(scheme, Scheme):
        return [Case(type(scheme), {}, scheme)]
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


def checks(*, compiling: bool = False) -> Sequence[Check]:
    """Every check, family by family."""
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
    """A claim by name, what a scheme says of it on its examples, and the trouble where a measurement disagrees."""

    name: str
    says: str
    trouble: str = ""


def claims_measured(kind: type[Scheme]) -> list[Measured]:
    """Every claim of a scheme's class, measured now on each of its examples."""
    from posenc.contract import claims

    cases = [Case(kind, options) for options in kind.examples]
    found = []
    for field in dataclasses.fields(Claims):
        says = list(dict.fromkeys(_words(getattr(case.claims, field.name)) for case in cases))
        measure = next(
            value
            for name, value in vars(claims).items()
            if name.startswith(field.name[:4]) and name.endswith("_as_claimed")
        )
        troubles = [result.trouble for result in (run(measure, case) for case in cases) if result.trouble]
        found.append(Measured(field.name, ", or ".join(says), troubles[0] if troubles else ""))
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
    """One check on one case; an error of the scheme's own counts as a failure too, and a known fault that is none."""
    found = _run(one, case)
    why = case.faults.get(found.check, "")
    if why and found.trouble:
        return dataclasses.replace(found, trouble="", unwritten=False, known=why)
    return dataclasses.replace(found, trouble=f"passes, and `faults` says that it fails: {why}.") if why else found


def _run(one: Check, case: Case) -> Result:
    name = f"{one.__module__.rpartition('.')[2]}.{one.__name__}"
    try:
        one(case)
    except ContractError as error:
        return Result(name, str(case), str(error), isinstance(error, UnwrittenError))
    except NotImplementedError as error:
        if told := _unwritten(error, case):
            return Result(name, str(case), told, unwritten=True)
        return Result(name, str(case), _cut_short(error))
    except Exception as error:
        return Result(name, str(case), _cut_short(error))
    return Result(name, str(case))


def _cut_short(error: Exception) -> str:
    return f"{type(error).__name__}: {textwrap.shorten(' '.join(str(error).split()), LONGEST, placeholder=' ..')}"


def _unwritten(error: NotImplementedError, case: Case) -> str:
    """What a scheme, or ``Scheme``, says of a part that is not written, and where; nothing where torch lacks one."""
    *_, (frame, line) = traceback.walk_tb(error.__traceback__)
    path, module = frame.f_code.co_filename, frame.f_globals.get("__name__")
    if module == Scheme.__module__:
        return f"{error}."
    linecache.checkcache(path)  # it may have been edited since
    own = module == case.kind.__module__ and linecache.getline(path, line).lstrip().startswith("raise")
    return f"{error} ({Path(path).name}, line {line})" if own else ""
