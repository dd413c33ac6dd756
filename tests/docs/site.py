"""Builds the site of the documentation, once for a session of tests."""

import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]
PAGES = ROOT / "docs" / "pages"
# Without the network: each request of a connection to another machine fails.
NO_NETWORK = {
    name: "http://127.0.0.1:9" for name in ("http_proxy", "https_proxy", "all_proxy")
}


def build(folder):
    """Builds the site strictly, without network."""
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--site-dir",
        folder,
    ]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **NO_NETWORK, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    assert "WARNING" not in done.stderr


def documented(folder=PAGES / "en" / "reference"):
    """Lists the names of the reference, each as often as it is there."""
    pages = [page.read_text(encoding="utf-8") for page in sorted(folder.glob("*.md"))]
    return re.findall(r"^::: (\S+)$", "\n".join(pages), re.MULTILINE)
