"""Downloads a file, verified and atomically.

The file is written to a temporary name and renamed after its checksum is verified, so
that an interrupted download leaves no partial file.
"""

import contextlib
import hashlib
import os
import pathlib
from collections.abc import Callable

from kerasseq.core.files import replacing

CHUNK = 1 << 16  # bytes
TIMEOUT = 30  # seconds without data


def sha256(path: pathlib.Path) -> str:
    """Returns the checksum of a file as 64 hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fetch(
    url: str,
    path: pathlib.Path,
    check: Callable[[pathlib.Path], object],
    *,
    progress: bool = True,
) -> None:
    """Downloads `url` to `path`, atomically.

    Args:
        url: The URL.
        path: The file; its folder is created if necessary.
        check: Called with the temporary file. If it raises an error, the file is
            deleted.
        progress: Whether to show progress on stderr.

    Raises:
        ConnectionError: If `KERASSEQ_OFFLINE` is set, or the download is incomplete.
        OSError: If the file cannot be written, for example because the disk is full.
    """
    if os.environ.get("KERASSEQ_OFFLINE", "0") not in ("", "0"):
        raise ConnectionError(
            f"{url} is not on this computer, and KERASSEQ_OFFLINE is set, which "
            "forbids downloads. Unset it, or pass path= with a file that you have"
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            with (
                open(temporary, "wb") as file,
                contextlib.closing(_body(url, progress)) as body,
            ):
                for chunk in body:
                    file.write(chunk)
            check(temporary)
    except ConnectionError:
        raise
    except OSError as error:
        raise OSError(
            f"{path} could not be written: {error.strerror or error}. Make room there, "
            "or pass another folder="
        ) from error


def _body(url: str, progress: bool):
    """Yields the file in chunks, or raises a `ConnectionError`."""
    import http.client
    import urllib.error
    import urllib.request  # slow imports, not needed by the other data sets

    request = urllib.request.Request(url, headers={"User-Agent": "kerasseq"})
    done, total = 0, None
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
            length = response.headers.get("Content-Length", "")
            total = int(length) if length.isdecimal() else None
            with _shown(url, total, progress) as advance:
                while chunk := response.read(CHUNK):
                    done += len(chunk)
                    advance(len(chunk))
                    yield chunk
    except urllib.error.HTTPError as error:
        error.close()
        raise _failed(url, f"the server says {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException) as error:
        why = str(getattr(error, "reason", error)) or type(error).__name__
        raise _failed(url, why) from error
    if total is not None and done != total:
        raise _failed(url, f"only {done:,} of {total:,} bytes came")


def _failed(url: str, why: str) -> ConnectionError:
    return ConnectionError(
        f"{url} could not be downloaded: {why}. Nothing was kept. Try again later, or "
        "get the file in another way and pass path="
    )


@contextlib.contextmanager
def _shown(url: str, total: int | None, progress: bool):
    """Yields a function to call with the number of received bytes."""
    if not progress:
        yield lambda size: None
        return
    import rich.console
    import rich.progress

    console = rich.console.Console(stderr=True)
    name = url.rpartition("/")[2]
    if not console.is_terminal:
        size = "" if total is None else f" ({total:,} bytes)"
        console.print(f"Downloading {url}{size}", markup=False, soft_wrap=True)
        yield lambda size: None
        return
    columns = (
        rich.progress.TextColumn("{task.description}", markup=False),
        rich.progress.BarColumn(),
        rich.progress.DownloadColumn(),
        rich.progress.TimeRemainingColumn(),
    )
    with rich.progress.Progress(*columns, console=console) as bar:
        task = bar.add_task(name, total=total)
        yield lambda size: bar.update(task, advance=size)
