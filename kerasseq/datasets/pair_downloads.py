"""Real sentences with their translations, downloaded only when asked for.

What may be fetched stands in `pair_sources.toml`. A checksum that is not known there is
taken from the first download, noted beside the file as `sha256sum` writes it, and asked
of every later use: a file that changes, here or at its source, does not go unnoticed.
"""

import pathlib
import zipfile
import zlib
from typing import NamedTuple

from kerasseq.core.checks import one_of
from kerasseq.core.files import replacing
from kerasseq.datasets.downloads import cache_folder, fetch, sha256
from kerasseq.datasets.files import check_is_file
from kerasseq.datasets.pair_files import Report, parse_pairs, read_pairs
from kerasseq.datasets.pairs import Pairs

TABLE = pathlib.Path(__file__).with_name("pair_sources.toml")


class PairSource(NamedTuple):
    """What there is to know about a file of pairs before downloading it.

    Attributes:
        name: Its name, as `download_pairs` takes it.
        url: Where it is.
        file: Name of the text file in the archive.
        languages: Of source and target.
        size: Of the archive, roughly.
        license: Its terms.
        sha256: Checksum of the archive; None if that of the first download counts.
    """

    name: str
    url: str
    file: str
    languages: tuple[str, str]
    size: str
    license: str
    sha256: str | None = None


def pair_sources() -> list[PairSource]:
    """List the files that `download_pairs` knows.

    Returns:
        One `PairSource` each.

    Examples:
        >>> [source.name for source in pair_sources()]
        ['en-fr', 'en-es', 'en-de']
    """
    import tomllib  # kept out of `import kerasseq.datasets`, which must stay light

    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return [
        PairSource(name, **{**entry, "languages": tuple(entry["languages"])})
        for name, entry in table.items()
    ]


def download_pairs(
    name: str,
    *,
    folder=None,
    path=None,
    strict: bool = False,
    limit: int | None = None,
    progress: bool = True,
) -> tuple[Pairs, Report]:
    """Get sentences and their translations, from the network the first time.

    Args:
        name: Which: one of `pair_sources()`.
        folder: Where to keep the file. The default is `pairs` in `KERASSEQ_CACHE` of
            the environment, in `kerasseq` of `XDG_CACHE_HOME`, or in
            `~/.cache/kerasseq`.
        path: A file that is there already, the archive or the text in it, to be used
            instead; nothing is downloaded then.
        strict: Whether a line that is no pair is an error.
        limit: Stop after this many pairs.
        progress: Whether to show on stderr how far the download is.

    Returns:
        The pairs, and a `Report` of the invalid lines.

    Raises:
        ConnectionError: If the file is not there and cannot be fetched, or may not be
            because of `KERASSEQ_OFFLINE=1`.
        FileNotFoundError: If there is no file at `path`.
        IsADirectoryError: If `path` is a folder.
        OSError: If the file cannot be kept, for example because the disk is full.
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
    """The archive on this computer, with its checksum checked."""
    note = path.with_name(path.name + ".sha256")
    expected = source.sha256 or _noted(note)
    what = str(path) if path.exists() else f"What {source.url} sent"
    advice = "Delete it to download it anew" if path.exists() else "It was not kept"

    def check(file):
        found = sha256(file)
        if expected is not None and found != expected:
            also = "" if source.sha256 else f"; delete {note} to trust what comes next"
            raise ValueError(
                f"{what} has the wrong checksum, {found} and not {expected}: it is "
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
    """The checksum of the first download, if there was one."""
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
    """The file called `name`, in whatever folder of the archive it is."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.namelist()
            found = [m for m in members if m.rpartition("/")[2] == name]
            if found:
                return archive.read(found[0])
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise ValueError(f"{what} is no whole zip archive: {error}") from error
    inside = ", ".join(members) or "nothing"
    raise ValueError(f"{what} is an archive without {name}; in it is {inside}")
