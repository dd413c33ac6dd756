"""Shows what `help` shows: completed docstrings, and functions that are methods."""

import re

import griffe

from kerasseq.rnn.docstrings import completed

FUNCTIONS = [  # classes with methods that are functions
    ("tasks.base", "TaskModel"),
    ("models.causal_lm", "CausalLM"),
    ("series.forecaster", "Forecaster"),
    ("models.seq2seq.translator", "Translator"),
    ("models.multimodal.multimodal", "Multimodal"),
    ("models.whisper.whisper", "Whisper"),
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
        shown: set[str] = set()
        for path, name in FUNCTIONS:
            show_functions(pkg[path][name], pkg, shown)


def complete(cls: griffe.Class, module: griffe.Module) -> None:
    """Completes the docstring of a class of a module."""
    members, cell = cls.all_members, ""
    if "Cell" in members:
        cell = module[str(members["Cell"].value)].docstring.value
    bases = [base.docstring.value for base in cls.mro() if base.docstring]
    names = [p.name for p in members["__init__"].parameters if p.name != "self"]
    cls.docstring.value = completed(cls.docstring.value, names, bases, cell)


def show_functions(cls: griffe.Class, package: griffe.Module, shown: set[str]) -> None:
    """Shows methods of a class that are functions of modules of a package.

    Args:
        cls: The class.
        package: The package.
        shown: Paths of the functions that other classes show, too, without the model.
    """
    values = {name: str(each.value) for name, each in cls.attributes.items()}
    for name, each in cls.functions.items():
        for decorator in each.decorators:
            values[name] = str(decorator.value)
    for name, value in values.items():
        match = re.fullmatch(r"(property\(|method_of\()?(\w+)\.(\w+)\)?", value)
        module = match and cls.module.imports.get(match[2], "")
        if not module or not module.startswith(f"{package.path}."):
            continue
        function = package[module.removeprefix(f"{package.path}.")][match[3]]
        if match[1] == "property(":
            cls.attributes[name].docstring = function.docstring
            cls.attributes[name].labels.add("property")
            continue
        if function.path not in shown:
            first = function.parameters[0].name  # the model, as `self` of a method
            del function.parameters[first]
            text = function.docstring.value
            function.docstring.value = re.sub(rf"\n +{first}: .*", "", text)
        shown.add(function.path)
        cls.set_member(name, griffe.Alias(name, function, parent=cls))
