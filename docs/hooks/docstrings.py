"""Shows what `help` shows: completed docstrings, and functions that are methods."""

import re

import griffe

from kerasseq.rnn.docstrings import completed

FUNCTIONS = [  # classes with methods that are functions
    ("tasks.base", "TaskModel"),
    ("models.causal_lm", "CausalLM"),
    ("series.forecaster", "Forecaster"),
]


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
        for path, name in FUNCTIONS:
            folder, module = path.split(".")
            show_functions(pkg[folder][module][name], pkg[folder])


def complete(cls: griffe.Class, module: griffe.Module) -> None:
    """Completes the docstring of a class of a module."""
    members, cell = cls.all_members, ""
    if "Cell" in members:
        cell = module[str(members["Cell"].value)].docstring.value
    bases = [base.docstring.value for base in cls.mro() if base.docstring]
    names = [p.name for p in members["__init__"].parameters if p.name != "self"]
    cls.docstring.value = completed(cls.docstring.value, names, bases, cell)


def show_functions(cls: griffe.Class, package: griffe.Module) -> None:
    """Shows methods of a class that are functions of modules of a package."""
    for name, attribute in list(cls.attributes.items()):
        match = re.fullmatch(r"(property\()?(\w+)\.(\w+)\)?", str(attribute.value))
        if match is None or match[2] not in package.modules:
            continue
        function = package[match[2]][match[3]]
        if match[1]:
            attribute.docstring = function.docstring
            attribute.labels.add("property")
            continue
        first = function.parameters[0].name  # the model, as `self` of a method
        del function.parameters[first]
        text = function.docstring.value
        function.docstring.value = re.sub(rf"\n +{first}: .*", "", text)
        cls.set_member(name, griffe.Alias(name, function, parent=cls))
