"""How to install kerasseq and what it needs: for messages, pages and notebooks.

kerasseq is in no package index. There, anybody can register its name, and a command
that installs it by name would run their code: messages name the missing packages.
"""

import importlib
import importlib.util
from typing import Any

REPOSITORY = ""  # address, as in https://HOST/OWNER/kerasseq; empty: not published
CONTACT = ""  # for reports of vulnerabilities; empty: the page of the repository


def requirement(*extras: str, copy: str = ".") -> str:
    """Returns the words after `pip install` that install kerasseq itself.

    Args:
        *extras: Extras of `pyproject.toml`.
        copy: The folder of a copy of the repository, used if `REPOSITORY` is empty.

    Examples:
        >>> requirement("torch", "viz", copy="/my/copy")
        '-e "/my/copy[torch,viz]"'
    """
    brackets = f"[{','.join(extras)}]" if extras else ""
    if REPOSITORY:
        return f'"kerasseq{brackets} @ git+{REPOSITORY}"'
    return f'-e "{copy}{brackets}"' if extras else f"-e {copy}"


def install(*packages: str) -> str:
    """Returns what to do about packages that are not installed.

    Examples:
        >>> install("pandas", "pyarrow")
        'In this environment: pip install pandas pyarrow'
    """
    return f"In this environment: pip install {' '.join(packages)}"


def is_installed(package: str) -> bool:
    """Returns whether a package is installed, without importing it.

    Args:
        package: Its name, which is that of its module with "-" for "_".

    Examples:
        >>> is_installed("keras"), is_installed("no-such-package")
        (True, False)
    """
    return importlib.util.find_spec(package.replace("-", "_")) is not None


def load(module: str, package: str, need: str) -> Any:
    """Imports a module of an optional package.

    Args:
        module: The module.
        package: The package that has it.
        need: What needs it, for the message: "a table needs".

    Raises:
        ImportError: If the package is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise missing(need, package) from error


def missing(need: str, package: str) -> ImportError:
    """Returns the error of a function that needs a package that is not installed.

    Examples:
        >>> print(missing("a table needs", "pandas"))
        a table needs pandas, which is not installed. In this environment: pip install pandas
    """  # noqa: E501
    return ImportError(f"{need} {package}, which is not installed. {install(package)}")
