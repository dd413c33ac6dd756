"""The description of the package: the README, with links that work everywhere."""

import pathlib
import re
import runpy

from hatchling.metadata.plugin.interface import MetadataHookInterface

ROOT = pathlib.Path(__file__).parent
# The target of a link or a picture that is a path: ![…](path), […](path#anchor).
PATH = re.compile(r"(!?\[[^\]]*\]\()(?!\w+:|#)")


class Description(MetadataHookInterface):
    """Adds the README, and the addresses of the repository once it has one."""

    def update(self, metadata):
        """Changes the metadata of `pyproject.toml` in place."""
        packages = runpy.run_path(str(ROOT / "kerasseq" / "core" / "packages.py"))
        address = packages["REPOSITORY"]
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": with_addresses(readme, address) if address else readme,
        }
        metadata["urls"] = {"Repository": address} if address else {}


def with_addresses(readme, address):
    """Returns a text whose links and pictures begin with the address of the repository.

    >>> print(with_addresses("![a](b.png) [c](d.md#e) [f](https://g)", "https://h/i/j"))
    ![a](https://h/i/j/raw/main/b.png) [c](https://h/i/j/blob/main/d.md#e) [f](https://g)
    """

    def whole(match):
        kind = "raw" if match[1].startswith("!") else "blob"
        return f"{match[1]}{address}/{kind}/main/"

    return PATH.sub(whole, readme)
