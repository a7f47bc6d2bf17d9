"""The workflows' code as it was when a worker started.

Each run of a workflow loads its modules anew. Read from files they would be those of an update that is installed
meanwhile, and the run would go on under the version of a worker whose code it has not.
"""

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import Path
from types import CodeType, ModuleType


class FrozenModules(MetaPathFinder, Loader):
    """Finds modules by their names in compiled sources."""

    def __init__(self, modules: dict[str, tuple[Path, CodeType]]) -> None:
        self._modules = modules

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module of that name, if it is one of these."""
        if fullname not in self._modules:
            return None
        file, _ = self._modules[fullname]
        spec = spec_from_loader(fullname, self, origin=str(file), is_package=file.name == "__init__.py")
        if spec is not None:
            spec.has_location = True  # so that it has its file's name, for whoever reads a traceback
        return spec

    def exec_module(self, module: ModuleType) -> None:
        _, code = self._modules[module.__name__]
        exec(code, module.__dict__)  # noqa: S102 - what an import does


def freeze(package: str, root: Path) -> None:
    """From now on modules of the package below ``root`` are loaded as their files are now."""
    modules = {}
    for file in sorted((root / package).glob("*.py")):
        name = package if file.stem == "__init__" else f"{package}.{file.stem}"
        modules[name] = file, compile(file.read_bytes(), str(file), "exec", dont_inherit=True)
    sys.meta_path.insert(0, FrozenModules(modules))
