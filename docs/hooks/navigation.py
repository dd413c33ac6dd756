"""Replaces each entry of the navigation that ends in "/" by the pages of that folder.

Pages that the navigation names elsewhere are left out; the order is that of the file
names, with `index.md` first.
"""

import pathlib


def on_config(config):
    """Expands the folders before the languages are built."""
    root = pathlib.Path(config.docs_dir) / "en"
    if config.nav:
        config.nav = [_expanded(entry, root) for entry in config.nav]
    return config


def _expanded(entry, root):
    """Returns an entry of the navigation, with a folder as a list of its pages."""
    if not isinstance(entry, dict):
        return entry
    return {
        title: pages_in(root, target)
        if isinstance(target, str) and target.endswith("/")
        else target
        for title, target in entry.items()
    }


def pages_in(root, folder):
    """Lists the pages of a folder as paths below `root`."""
    names = sorted(path.name for path in (root / folder).glob("*.md"))
    names.sort(key=lambda name: name != "index.md")
    return [folder + name for name in names]
