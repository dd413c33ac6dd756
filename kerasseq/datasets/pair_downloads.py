"""Sentences with translations, downloaded on request.

`pair_sources.toml` lists the files. A checksum that is not in this list is computed for
the first download, saved beside the file in the format of `sha256sum`, and verified
whenever the file is used.
"""

import os
import pathlib
import zipfile
import zlib
from typing import NamedTuple

from kerasseq.core.checks import one_of
from kerasseq.core.files import cache_folder, replacing
from kerasseq.datasets.downloads import fetch, sha256
from kerasseq.datasets.files import check_is_file
from kerasseq.datasets.pair_files import Report, parse_pairs, read_pairs
from kerasseq.datasets.pairs import Pairs

TABLE = pathlib.Path(__file__).with_name("pair_sources.toml")


class PairSource(NamedTuple):
    """Description of a file of pairs.

    Attributes:
        name: Name, as for `download_pairs`.
        url: URL of the archive.
        file: Name of the text file in the archive.
        languages: Languages of source and target.
        size: Approximate size of the archive.
        license: License.
        sha256: Checksum of the archive; None to use that of the first download.
    """

    name: str
    url: str
    file: str
    languages: tuple[str, str]
    size: str
    license: str
    sha256: str | None = None


def pair_sources() -> list[PairSource]:
    """Lists the files that `download_pairs` can download.

    Returns:
        A list of `PairSource`.

    Examples:
        >>> [source.name for source in pair_sources()]
        ['en-fr', 'en-es', 'en-de']
    """
    import tomllib  # slow import, not needed by the other data sets

    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return [
        PairSource(name, **{**entry, "languages": tuple(entry["languages"])})
        for name, entry in table.items()
    ]


def download_pairs(
    name: str,
    *,
    folder: str | os.PathLike[str] | None = None,
    path: str | os.PathLike[str] | None = None,
    strict: bool = False,
    limit: int | None = None,
    progress: bool = True,
) -> tuple[Pairs, Report]:
    """Returns sentences and their translations, downloaded the first time.

    Args:
        name: Name of one of `pair_sources()`.
        folder: Folder for the file. Defaults to `pairs` in `KERASSEQ_CACHE` of the
            environment, in `kerasseq` of `XDG_CACHE_HOME`, or in `~/.cache/kerasseq`.
        path: An existing archive or its text file, to be used without a download.
        strict: Whether a malformed line is an error.
        limit: Maximum number of pairs.
        progress: Whether to show progress on stderr.

    Returns:
        The pairs, and a `Report` of malformed lines.

    Raises:
        ConnectionError: If the file cannot be downloaded, or `KERASSEQ_OFFLINE=1`
            forbids it.
        FileNotFoundError: If there is no file at `path`.
        IsADirectoryError: If `path` is a folder.
        OSError: If the file cannot be saved, for example because the disk is full.
        ValueError: If the name is unknown, a checksum is wrong or a file is damaged.

    Examples:
        >>> download_pairs("en-fr", path="fra.txt")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        FileNotFoundError: There is no file fra.txt in ...
    """
    sources = {source.name: source for source in pair_sources()}
    source = sources[one_of("name", name, list(sources))]
    if path is not None:
        path = pathlib.Path(path)
        check_is_file(path)
        if not zipfile.is_zipfile(path):
            return read_pairs(path, strict=strict, limit=limit)
    else:
        folder = cache_folder() / "pairs" if folder is None else pathlib.Path(folder)
        path = _kept(source, folder / f"{source.name}.zip", progress)
    data = _unpack(path, source.file, str(path))
    return parse_pairs(path / source.file, data, strict=strict, limit=limit)


def _kept(source: PairSource, path: pathlib.Path, progress: bool) -> pathlib.Path:
    """Returns the verified archive on this computer, downloading it if necessary."""
    note = path.with_name(path.name + ".sha256")
    expected = source.sha256 or _noted(note)
    what = str(path) if path.exists() else f"What {source.url} sent"
    advice = "Delete it to download it anew" if path.exists() else "It was not kept"

    def check(file):
        actual = sha256(file)
        if expected is not None and actual != expected:
            also = "" if source.sha256 else f"; delete {note} to trust what comes next"
            raise ValueError(
                f"{what} has the wrong checksum, {actual} and not {expected}: it is "
                f"damaged or was changed. {advice}{also}"
            )
        try:
            _unpack(file, source.file, what)
        except ValueError as error:
            raise ValueError(f"{error}. {advice}") from error

    if path.exists():
        check(path)
    else:
        fetch(source.url, path, check, progress=progress)
    if expected is None:
        with replacing(note) as temporary:
            line = f"{sha256(path)}  {path.name}\n"
            temporary.write_text(line, encoding="ascii")
    return path


def _noted(note: pathlib.Path) -> str | None:
    """Returns the checksum of the first download, or None."""
    if not note.exists():
        return None
    digest = note.read_text(encoding="ascii", errors="replace").partition(" ")[0]
    if len(digest) != 64 or set(digest) - set("0123456789abcdef"):
        raise ValueError(
            f"{note} is damaged: it should begin with 64 hexadecimal digits. Delete it "
            "to trust the file beside it"
        )
    return digest


def _unpack(path: pathlib.Path, name: str, what: str) -> bytes:
    """Returns the content of a file in any folder of an archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.namelist()
            matching = [m for m in members if m.rpartition("/")[2] == name]
            if matching:
                return archive.read(matching[0])
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise ValueError(f"{what} is no whole zip archive: {error}") from error
    inside = ", ".join(members) or "nothing"
    raise ValueError(f"{what} is an archive without {name}; in it is {inside}")
