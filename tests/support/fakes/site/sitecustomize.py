"""Python imports this at its start. Nothing is imported here: a module of the product gets the fakes when it is."""

import importlib
import importlib.abc
import importlib.machinery
import sys

MODULES = {"inventory": "add_testbed", "barograph.run.context": "add_context"}


class FakesAfterImport(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name not in MODULES:
            return None
        finders = [finder for finder in sys.meta_path if finder is not self]
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in finders)), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                getattr(importlib.import_module("tests.support.fakes"), MODULES[name])()

            spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, FakesAfterImport())
