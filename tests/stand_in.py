"""torchvision for a timm that was installed without it."""

from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class Named(type):
    """A class that has any attribute, as text."""

    def __getattr__(cls, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return f"{cls.__name__}.{name}"


class StandIn(MetaPathFinder, Loader):
    """Makes torchvision and its parts of empty classes, for a timm that was installed without it.

    torchvision's wheels fit one build of torch each, and timm takes from it what a vision transformer never calls.
    """

    def find_spec(self, fullname, path=None, target=None) -> ModuleSpec | None:
        return ModuleSpec(fullname, self, is_package=True) if fullname.split(".")[0] == "torchvision" else None

    def exec_module(self, module: ModuleType) -> None:
        def made(name: str) -> Named:
            if name.startswith("__"):
                raise AttributeError(name)
            return Named(name, (), {})

        module.__dict__["__getattr__"] = made
