"""Changes of a preset's settings: names, types and values of its settings, and the preset with changed values.

A setting is a field of a typed preset, or of a configuration in it, such as ``training.epochs``. Its name is the end of
its path that no other setting has: ``epochs``. Fields of the same class in several configurations are one setting, and
a change of it changes all of them; the path names a single one, such as ``recipes.pvt.training.epochs``.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, get_type_hints
from weakref import WeakKeyDictionary

import msgspec

from posenc.lookup.scheme_text import unknown
from posenc.workbench import setting_errors
from posenc.workbench.studies import Request
from posenc.workbench.studies.shared import setting_values
from posenc.workbench.studies.shared.declarations import Preset

if TYPE_CHECKING:
    from posenc.workbench.studies.shared.study import Study

Path = tuple[str, ...]
P = TypeVar("P", bound=Preset)

DECLARATIONS = frozenset({*(field.name for field in dataclasses.fields(Preset)), "limits"})
"""Fields of a preset that are not settings."""
DECIDED_BY_DATA = frozenset({"channels", "classes"})
"""Sizes of a model that its data decides."""
OWN_STEPS, EPOCHS, SECONDS = "own_steps", "epochs", "seconds"
"""Names of the fields with the steps on a user's own data, the epochs of a training and its time limit."""
SWEEP = "lr_sweep"
"""Name of the learning rates of a sweep in the label of a preset."""
LONGEST_SUFFIX = 80
"""Number of characters of a file name's suffix beyond which it is shortened."""
RESOLVED = WeakKeyDictionary[type, dict[str, Any]]()
"""Class of a configuration -> its resolved annotations, which depend on the class alone."""


class _Leaf(NamedTuple):
    """A field: its path, the path without keys of mappings, its class, its type, and its value."""

    path: Path
    fields: Path
    owner: str
    annotation: Any
    value: Any

    @property
    def group(self) -> tuple[str, str]:
        return self.owner, self.fields[-1]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A setting of a preset that a request can change.

    Attributes:
        name: Its name.
        paths: Dotted paths of the fields that it changes.
        type: Description of its values.
        default: Value of the preset as text; "computed" if the study computes it. Different values of several fields
            are separated by semicolons.
        choices: Its values, if only some texts are possible.
        fields: The paths without keys of mappings.
        least: Smallest number that is possible.
        defaults: Value of the preset as text, of each of the paths.
        field_of: Path without keys of mappings, of each of the paths.
        least_of: Smallest number that is possible, of each of the paths.
    """

    name: str
    paths: Sequence[str]
    type: str
    default: str
    choices: Sequence[str] = ()
    fields: Sequence[str] = ()
    least: int = 0
    defaults: Sequence[str] = ()
    field_of: Sequence[str] = ()
    least_of: Sequence[int] = ()


def settings_of(study: Study, preset: str) -> list[Setting]:
    """List the settings of a preset that a request can change.

    Args:
        study: The study.
        preset: Name of the preset.

    Returns:
        The settings, in the order of the preset's fields.
    """
    return _settings(study.presets[preset])


def changed_preset(presets: Mapping[str, P], request: Request) -> P:
    """Return the preset of a request with its changes.

    Args:
        presets: Presets by name.
        request: The request.

    Returns:
        The changed preset; the preset itself if the request changes nothing.

    Raises:
        ValueError: There is no setting of a name, or a value is not possible.
    """
    preset = presets[request.preset]
    values = _values(preset, request)
    if not values:
        return preset
    try:
        changed: P = _replaced(preset, values)
    except ValueError as error:
        raise ValueError(f"{' '.join(options(presets, request))} is not possible: {error}") from None
    fields = {".".join(leaf.fields) for leaf in _leaves(preset) if leaf.path in values}
    return changed.with_dependent_values(fields)


def explicit_fields(presets: Mapping[str, Preset], request: Request, *path: str) -> dict[str, Any]:
    """Return the fields of a configuration that a request changes.

    They have the last word over values that a study computes, such as the steps of a cosine decay.

    Args:
        presets: Presets by name.
        request: The request.
        *path: Path of the configuration in the preset, such as "training".

    Returns:
        Field to value.
    """
    values = _values(presets[request.preset], request)
    return {at[-1]: value for at, value in values.items() if at[:-1] == path}


def with_twice_the_budget(presets: Mapping[str, P], request: Request) -> Request:
    """Return a request for runs on a user's own data with twice the steps, and twice the time if that is limited.

    The steps are the number of epochs where the request changes it, and otherwise the steps for own data or those of
    the training.

    Args:
        presets: Presets by name.
        request: The request.

    Returns:
        The request with changed settings.
    """
    explicit = _values(presets[request.preset], request)
    values = {leaf.path: leaf.value for leaf in _leaves(changed_preset(presets, request))}
    own = [path for path in values if path[-1] == OWN_STEPS]
    epochs = [path for path in explicit if path[-1] == EPOCHS]
    others = [path for path in (("steps",), ("training", EPOCHS)) if path in values][:1]
    counted = {path[:-2] for path in epochs}
    paths = epochs + ([path for path in own if path[:-1] not in counted] if own else others if not epochs else [])
    limits = [path for path in explicit if path[-1] == SECONDS and values[path]]
    doubled = {path: 2 * values[path] for path in (*paths, *limits)}
    return dataclasses.replace(request, changes={".".join(path): value for path, value in (explicit | doubled).items()})


def preset_label(presets: Mapping[str, Preset], request: Request) -> str:
    """Return the label of the preset of a request, under which its runs are stored.

    Args:
        presets: Presets by name.
        request: The request.

    Returns:
        Name of the preset, followed by its changes, such as "quick epochs=4".
    """
    return " ".join((request.preset, *map(quote, _texts(presets[request.preset], request)), *_sweep_texts(request)))


def request_of(label: str) -> Request:
    """Return the request whose label this is.

    Args:
        label: Label of a preset, as of a stored run.

    Returns:
        A request for the preset with its changes.
    """
    preset, *texts = shlex.split(label)
    values = dict(text.split("=", 1) for text in texts)
    rates = values.pop(SWEEP, None)
    lr_sweep = None if rates is None else tuple(map(float, rates.split(",")))
    return Request(preset=preset, changes=values, lr_sweep=lr_sweep)


def options(presets: Mapping[str, Preset], request: Request) -> list[str]:
    """Return the options of the command that makes the changes of a request.

    Args:
        presets: Presets by name.
        request: The request.

    Returns:
        Options such as "--set epochs=4", and "--lr-sweep 0.001 0.003".
    """
    rates = " ".join(f"{rate:g}" for rate in request.lr_sweep or ())
    sets = [f"--set {quote(text)}" for text in _texts(presets[request.preset], request)]
    return [*sets, *([f"--lr-sweep {rates}"] if rates else [])]


def file_suffix(presets: Mapping[str, Preset], request: Request) -> str:
    """Return the suffix of file names of a request with changes.

    Args:
        presets: Presets by name.
        request: The request.

    Returns:
        Text such as "epochs=4"; "" without changes.
    """
    text = "-".join((*_texts(presets[request.preset], request), *_sweep_texts(request)))
    plain = re.sub(r"[^\w.=,+-]", "_", text, flags=re.ASCII)[:LONGEST_SUFFIX]
    return plain if plain == text else f"{plain}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def differences(presets: Mapping[str, Preset], request: Request) -> list[str]:
    """Describe how the preset of a request differs from the preset of its name.

    Values that follow a change, such as the steps of a cosine decay, are described too.

    Args:
        presets: Presets by name.
        request: The request.

    Returns:
        Phrases such as "epochs 60 → 4000".
    """
    preset = presets[request.preset]
    before, after = _leaves(preset), {leaf.path: leaf.value for leaf in _leaves(changed_preset(presets, request))}
    explicit = _values(preset, request)
    changed = [leaf for leaf in before if leaf.path in explicit or leaf.value != after[leaf.path]]
    names = _names(before, {leaf.path: after[leaf.path] for leaf in changed})
    phrases = dict[str, list[str]]()
    for leaf in changed:
        old = setting_errors.COMPUTED if _is_computed(preset, leaf) else setting_values.text(leaf.value)
        new = setting_values.text(after[leaf.path])
        phrases.setdefault(names[leaf.path], []).append(new if old == new else f"{old} → {new}")
    swept = [f"learning rate chosen for each variant from {setting_values.text(tuple(request.lr_sweep or ()))}"]
    described = [f"{name} {' and '.join(dict.fromkeys(texts))}" for name, texts in phrases.items()]
    return described + (swept if request.lr_sweep else [])


def refuse_varied(study: Study, request: Request, panels: Iterable[str]) -> None:
    """Raise ValueError if a request changes a setting that one of its panels varies itself.

    Args:
        study: The study.
        request: The request.
        panels: Names of its panels.

    Raises:
        ValueError: The message names the panel, the setting, and the panels that are possible.
    """
    if message := setting_errors.varied(changed_and_varied(study, request, panels)):
        raise ValueError(message)


def changed_and_varied(study: Study, request: Request, panels: Iterable[str]) -> dict[str, list[str]]:
    """Return the settings that a request changes and a panel varies itself, for each of some panels.

    Args:
        study: The study.
        request: The request.
        panels: Names of the panels.

    Returns:
        Panel to dotted paths of settings.
    """
    if not request.changes:
        return {panel: [] for panel in panels}
    preset = changed_preset(study.presets, request)
    values = _values(study.presets[request.preset], request)
    fields = {".".join(leaf.fields) for leaf in _leaves(preset) if leaf.path in values}
    return {panel: sorted(fields & _varied(study, request, panel, preset)) for panel in panels}


def varied_settings(study: Study, request: Request, panel: str) -> set[str]:
    """Return the settings that a panel varies: in its conditions, in its variants, or as the sizes of a sweep.

    Args:
        study: The study.
        request: The request.
        panel: Name of the panel.

    Returns:
        Dotted paths in the preset, without keys of mappings.
    """
    return _varied(study, request, panel, changed_preset(study.presets, request))


def _varied(study: Study, request: Request, panel: str, preset: Preset) -> set[str]:
    """The settings that a panel varies, with the preset of the request already changed."""
    spec = study.panels[panel]
    needs = spec.needs(request, preset)
    by_condition = (study.condition(label).varies(request.preset) for label in needs)
    return {*spec.varies(request, preset), *(name for names in by_condition for name in names)}


def _texts(preset: Preset, request: Request) -> list[str]:
    """Changes of a request as NAME=VALUE, each once, in one order for equal changes."""
    values = _values(preset, request)
    names = _names(_leaves(preset), values) if values else {}
    return sorted({f"{names[path]}={setting_values.text(value)}" for path, value in values.items()})


def _sweep_texts(request: Request) -> list[str]:
    """The learning rates of a sweep as NAME=VALUE, in one order."""
    return [f"{SWEEP}={setting_values.text(tuple(sorted(request.lr_sweep)))}"] if request.lr_sweep else []


def _names(leaves: Sequence[_Leaf], values: Mapping[Path, Any]) -> dict[Path, str]:
    """Name of each changed field: that of its setting if all fields of the setting have the same new value."""
    names = dict[Path, str]()
    for group in _groups(leaves):
        paths = [leaf.path for leaf in group]
        new = [values[path] for path in paths if path in values]
        whole = len(new) == len(paths) and all(value == new[0] for value in new)
        name = _name(leaves, group) if whole else ""
        names |= {path: name or ".".join(path) for path in paths}
    return names


def _settings(preset: Preset) -> list[Setting]:
    settings, leaves = [], _leaves(preset)
    for group in _groups(leaves):
        first = group[0]
        defaults = [
            setting_errors.COMPUTED if _is_computed(preset, leaf) else setting_values.text(leaf.value) for leaf in group
        ]
        least = [setting_values.least(leaf.path[-1], leaf.value) for leaf in group]
        fields = [".".join(leaf.fields) for leaf in group]
        setting = Setting(
            name=_name(leaves, group),
            paths=tuple(".".join(leaf.path) for leaf in group),
            type=setting_values.describe(first.annotation),
            default="; ".join(dict.fromkeys(defaults)),
            choices=setting_values.choices(first.annotation),
            fields=tuple(dict.fromkeys(fields)),
            least=max(least),
            defaults=tuple(defaults),
            field_of=tuple(fields),
            least_of=tuple(least),
        )
        settings.append(setting)
    return settings


def _is_computed(preset: Preset, leaf: _Leaf) -> bool:
    return ".".join(leaf.fields) in preset.computed


def _groups(leaves: Iterable[_Leaf]) -> list[list[_Leaf]]:
    groups = dict[tuple[str, str], list[_Leaf]]()
    for leaf in leaves:
        groups.setdefault(leaf.group, []).append(leaf)
    return list(groups.values())


def _name(leaves: Sequence[_Leaf], group: Sequence[_Leaf]) -> str:
    """Shortest end of the path of some fields that names these fields and no others of all fields."""
    shortest = min((leaf.fields for leaf in group), key=len)
    ends = (shortest[-count:] for count in range(1, len(shortest) + 1))
    return next(".".join(end) for end in ends if _matches(leaves, end) == list(group))


def _matches(leaves: Sequence[_Leaf], query: Path) -> list[_Leaf]:
    """Fields with this path; without one, fields whose path ends so."""
    exact = [leaf for leaf in leaves if query in (leaf.path, leaf.fields)]
    size = len(query)
    return exact or [leaf for leaf in leaves if query in (leaf.path[-size:], leaf.fields[-size:])]


def _find(preset: Preset, request: Request, name: str, every: Sequence[_Leaf] = ()) -> list[_Leaf]:
    """Fields, among all of the preset, that a name stands for.

    Raises ValueError if there are none, or if they are different settings.
    """
    leaves, query = every or _leaves(preset), tuple(name.split("."))
    matches = _matches(leaves, query)
    if not matches:
        alias = next((to for at, to in preset.aliases.items() if tuple(at.split("."))[-len(query) :] == query), None)
        matches = _matches(leaves, (alias,)) if alias else []
    if not matches:
        known = [setting.name for setting in _settings(preset)]
        raise ValueError(
            f"{unknown('setting', name, known)} The settings of the preset {request.preset} are {', '.join(known)}."
        )
    if len(groups := _groups(matches)) > 1:
        raise ValueError(setting_errors.ambiguous(name, [_name(leaves, each) for each in groups]))
    return matches


def _values(preset: Preset, request: Request) -> dict[Path, Any]:
    """Changed fields with their new values.

    A value that equals the preset's own is a change only where the study computes another one, or does so for a user's
    data: ``epochs=5`` on a folder is not the number of steps that the preset plans there.
    """
    if not request.changes:
        return {}
    every = _leaves(preset)
    matched = [(name, value, _find(preset, request, name, every)) for name, value in request.changes.items()]
    changed = dict[Path, tuple[str, int, Any]]()
    for name, value, leaves in sorted(matched, key=lambda each: -len(each[2])):  # a single field has the last word
        for leaf in leaves:
            free = _is_computed(preset, leaf)
            new = setting_values.convert(name, leaf.annotation, leaf.value, value, computed=free)
            names = preset.names.get(".".join(leaf.path), (new,))
            if new not in names:
                raise ValueError(setting_errors.unknown_name(".".join(leaf.path), value, names))
            other, count, before = changed.get(leaf.path, (name, 0, new))
            if count == len(leaves) and before != new:
                raise ValueError(setting_errors.same_setting(other, name))
            changed[leaf.path] = (name, len(leaves), new)
    own = {leaf.path: leaf for leaf in every}
    computed = {*preset.computed, *preset.computed_on_own_data}
    return {
        path: new
        for path, (_, _, new) in changed.items()
        if new != own[path].value or ".".join(own[path].fields) in computed
    }


def _leaves(preset: Preset) -> list[_Leaf]:
    every = _walk(preset, type(preset), (), (), "")
    return [leaf for leaf in every if leaf.path[0] not in DECLARATIONS and ".".join(leaf.fields) not in preset.aliases]


def _walk(value: Any, annotation: Any, path: Path, fields: Path, owner: str) -> Iterator[_Leaf]:
    """Fields of a value."""
    if names := _field_names(value):
        kind = type(value)
        hints = _annotations(kind)
        for name in names:
            yield from _walk(getattr(value, name), hints[name], (*path, name), (*fields, name), kind.__name__)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if _field_names(item):
                yield from _walk(item, type(item), (*path, key), fields, owner)
            elif isinstance(item, (int, float)) and not isinstance(item, bool):
                yield _Leaf((*path, key), (*fields, key), ".".join(path), type(item), item)
    elif setting_values.is_supported(annotation) and fields[-1] not in DECIDED_BY_DATA:
        yield _Leaf(path, fields, owner, annotation, value)


def _annotations(kind: type) -> dict[str, Any]:
    """Resolved annotations of a class. They never change, and to resolve them takes most of the time of a walk."""
    if kind not in RESOLVED:
        RESOLVED[kind] = get_type_hints(kind)
    return RESOLVED[kind]


def _field_names(value: Any) -> tuple[str, ...]:
    """Names of the fields of a dataclass, a struct or a named tuple; empty for other values."""
    if dataclasses.is_dataclass(value):
        return tuple(field.name for field in dataclasses.fields(value))
    if isinstance(value, msgspec.Struct):
        return value.__struct_fields__
    return tuple(getattr(value, "_fields", ()))


def _replaced(value: Any, changes: Mapping[Path, Any]) -> Any:
    """A configuration with changed fields. They change at once, because a configuration checks them together."""
    by_field = dict[str, dict[Path, Any]]()
    for path, new in changes.items():
        by_field.setdefault(path[0], {})[path[1:]] = new
    is_mapping = isinstance(value, Mapping)
    new = {
        name: inner[()] if () in inner else _replaced(value[name] if is_mapping else getattr(value, name), inner)
        for name, inner in by_field.items()
    }
    if is_mapping:
        return {**value, **new}
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.replace(value, **new)
    return value._replace(**new) if hasattr(value, "_replace") else dataclasses.replace(value, **new)
