"""Shows the docstrings of recurrent cells and layers as `help` does: completed."""

import griffe

from kerasseq.rnn.docstrings import completed


class CompletedDocstrings(griffe.Extension):
    """Does what `complete_docstring` does, without importing the classes."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: object) -> None:
        """Completes the docstrings of the classes that it decorates."""
        if pkg.path != "kerasseq":
            return
        for module in pkg["rnn"].modules.values():
            for cls in module.classes.values():
                if "complete_docstring" in {str(d.value) for d in cls.decorators}:
                    complete(cls, module)


def complete(cls: griffe.Class, module: griffe.Module) -> None:
    """Completes the docstring of a class of a module."""
    members, cell = cls.all_members, ""
    if "Cell" in members:
        cell = module[str(members["Cell"].value)].docstring.value
    bases = [base.docstring.value for base in cls.mro() if base.docstring]
    names = [p.name for p in members["__init__"].parameters if p.name != "self"]
    cls.docstring.value = completed(cls.docstring.value, names, bases, cell)
