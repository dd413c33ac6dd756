"""Downloads, from a server on this machine that can be told to misbehave."""

import errno
import hashlib
import http.server
import io
import pathlib
import threading
import tomllib
import zipfile

import pytest

from kerasseq import datasets
from kerasseq.datasets import (
    Pairs,
    download_pairs,
    downloads,
    pair_downloads,
    pair_sources,
)

TEXT = "Go.\tVa !\tCC-BY\nHi.\tSalut.\tCC-BY\nno tab\n"
PAIRS = Pairs(["Go.", "Hi."], ["Va !", "Salut."])


def archive(text=TEXT, name="fra-eng/fra.txt"):
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("fra-eng/_about.txt", "who wrote it")
        file.writestr(zipfile.ZipInfo(name), text)
    return held.getvalue()


class Server(http.server.ThreadingHTTPServer):
    """Answers every request as told; counts the requests."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.body, self.status, self.says, self.asked = archive(), 200, None, []
        self.url = f"http://127.0.0.1:{self.server_port}/fra-eng.zip"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        told = self.server
        told.asked.append(self.headers["User-Agent"])
        if told.status is None:  # hangs up without a word
            return
        self.send_response(told.status)
        if told.says != "nothing":
            self.send_header("Content-Length", str(told.says or len(told.body)))
        self.end_headers()
        self.wfile.write(told.body)

    def log_message(self, *words):
        pass


@pytest.fixture
def server(monkeypatch, tmp_path):
    for name in ("KERASSEQ_OFFLINE", "KERASSEQ_CACHE", "XDG_CACHE_HOME", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        monkeypatch.setattr(pair_downloads, "TABLE", tmp_path / "table.toml")
        listed(running)
        yield running
        running.shutdown()
        thread.join()


def listed(server, **more):
    entry = {"url": server.url, "file": "fra.txt", "size": "1 kB", "license": "free"}
    lines = [f'{key} = "{value}"' for key, value in {**entry, **more}.items()]
    text = "\n".join(["[en-fr]", 'languages = ["en", "fr"]', *lines])
    pair_downloads.TABLE.write_text(text, encoding="utf-8")


def names(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


KEPT = ["en-fr.zip", "en-fr.zip.sha256"]


def test_the_table_is_complete():
    raw = tomllib.loads(pair_downloads.TABLE.read_text(encoding="utf-8"))
    assert list(raw) == [source.name for source in pair_sources()]
    for source in pair_sources():
        assert all(source[:-1])
        assert source.url.startswith("https://") and source.url.endswith(".zip")
        assert source.name == "-".join(source.languages)
        assert source.sha256 is None or len(source.sha256) == 64


def test_the_first_time_it_is_fetched_and_then_it_is_there(server, tmp_path):
    folder = tmp_path / "a" / "b"
    pairs, report = download_pairs("en-fr", folder=folder)
    assert pairs == PAIRS and report.problems[0].examples == [(3, "no tab")]
    assert names(folder) == KEPT
    assert (folder / "en-fr.zip").read_bytes() == server.body
    digest = hashlib.sha256(server.body).hexdigest()
    assert (folder / KEPT[1]).read_text() == f"{digest}  en-fr.zip\n"
    again = download_pairs("en-fr", folder=str(folder), limit=1)
    assert again[0] == Pairs(["Go."], ["Va !"])
    assert server.asked == ["kerasseq"]
    with pytest.raises(ValueError, match="Not every line"):
        download_pairs("en-fr", folder=folder, strict=True)


def test_where_it_is_kept(monkeypatch, tmp_path, server):
    home = tmp_path / "home"
    monkeypatch.setattr(pathlib.Path, "home", lambda: home)
    monkeypatch.setenv("HOME", str(home))
    assert datasets.cache_folder() == home / ".cache" / "kerasseq"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    download_pairs("en-fr")
    assert names(tmp_path / "xdg" / "kerasseq" / "pairs") == KEPT
    monkeypatch.setenv("KERASSEQ_CACHE", str(tmp_path / "own"))
    download_pairs("en-fr")
    assert names(tmp_path / "own" / "pairs") == KEPT
    monkeypatch.setenv("KERASSEQ_CACHE", "~/mine")
    assert datasets.cache_folder() == home / "mine"


def test_nothing_is_downloaded_unless_it_is_asked_for(server):
    for entry in datasets.catalogue():
        assert "download" not in entry.call
    datasets.sample("copy")
    pair_sources()
    assert server.asked == []


@pytest.mark.parametrize(
    "told, message",
    [
        (dict(status=404), "says 404 Not Found"),
        (dict(status=503), "says 503"),
        (dict(status=None), "could not be downloaded: Remote end closed"),
        (dict(says=10**4), r"only \d+ of 10,000 bytes came"),
    ],
)
def test_what_does_not_come_whole_is_not_kept(server, tmp_path, told, message):
    vars(server).update(told)
    with pytest.raises(ConnectionError, match=message) as caught:
        download_pairs("en-fr", folder=tmp_path / "new")
    assert server.url in str(caught.value) and "path=" in str(caught.value)
    assert names(tmp_path / "new") == []
    vars(server).update(status=200, says=None)
    assert download_pairs("en-fr", folder=tmp_path / "new")[0] == PAIRS


def test_no_server_at_all(server, tmp_path):
    listed(server, url="http://127.0.0.1:9/fra-eng.zip")  # the discard port
    with pytest.raises(ConnectionError, match="could not be downloaded.*refused"):
        download_pairs("en-fr", folder=tmp_path / "new")
    assert names(tmp_path / "new") == []


@pytest.mark.parametrize(
    "body, message",
    [
        (b"<html>Please log in</html>", "fra-eng.zip sent is no whole zip archive"),
        (archive()[:-30], "no whole zip archive"),
        (archive(name="deu.txt"), "without fra.txt; in it is fra-eng/_about.txt, deu"),
    ],
)
@pytest.mark.parametrize("says", [None, "nothing"])
def test_what_is_no_archive_is_not_kept(server, tmp_path, body, message, says):
    server.body, server.says = body, says
    with pytest.raises(ValueError, match=f"{message}.*It was not kept"):
        download_pairs("en-fr", folder=tmp_path / "new")
    assert names(tmp_path / "new") == []


def test_a_known_checksum(server, tmp_path):
    folder = tmp_path / "new"
    listed(server, sha256="0" * 64)
    with pytest.raises(
        ValueError, match="fra-eng.zip sent has the wrong.* not 00.*was"
    ):
        download_pairs("en-fr", folder=folder)
    assert names(folder) == []
    listed(server, sha256=hashlib.sha256(server.body).hexdigest())
    assert download_pairs("en-fr", folder=folder)[0] == PAIRS
    assert names(folder) == ["en-fr.zip"]
    (folder / "en-fr.zip").write_bytes(archive("Go.\tChanged\n"))
    with pytest.raises(ValueError, match="en-fr.zip has the wrong.*Delete it to down"):
        download_pairs("en-fr", folder=folder)
    assert len(server.asked) == 2


def test_the_first_checksum_holds_if_none_is_known(server, tmp_path):
    folder = tmp_path / "new"
    download_pairs("en-fr", folder=folder)
    whole, changed = server.body, archive("Go.\tChanged\n")
    (folder / "en-fr.zip").write_bytes(changed)
    with pytest.raises(ValueError, match="en-fr.zip has the wrong checksum"):
        download_pairs("en-fr", folder=folder)
    # The server cannot slip in another file either, until the note is deleted.
    (folder / "en-fr.zip").unlink()
    server.body = changed
    with pytest.raises(ValueError, match="delete .*sha256 to trust what comes next"):
        download_pairs("en-fr", folder=folder)
    assert names(folder) == ["en-fr.zip.sha256"]
    server.body = whole
    assert download_pairs("en-fr", folder=folder)[0] == PAIRS
    (folder / "en-fr.zip").unlink()
    (folder / "en-fr.zip.sha256").unlink()
    server.body = changed
    assert download_pairs("en-fr", folder=folder)[0].targets == ["Changed"]


def test_a_file_without_its_note_and_a_damaged_note(server, tmp_path):
    (tmp_path / "en-fr.zip").write_bytes(server.body)  # killed before it was noted
    assert download_pairs("en-fr", folder=tmp_path)[0] == PAIRS
    assert server.asked == []
    (tmp_path / "en-fr.zip.sha256").write_text("é?")
    with pytest.raises(ValueError, match="sha256 is damaged.*Delete it"):
        download_pairs("en-fr", folder=tmp_path)


@pytest.mark.parametrize("said", ["1", "yes"])
def test_offline(server, tmp_path, monkeypatch, said):
    monkeypatch.setenv("KERASSEQ_OFFLINE", said)
    with pytest.raises(ConnectionError, match="KERASSEQ_OFFLINE is set.*path="):
        download_pairs("en-fr", folder=tmp_path / "new")
    assert server.asked == [] and not (tmp_path / "new").exists()
    monkeypatch.setenv("KERASSEQ_OFFLINE", "0")
    download_pairs("en-fr", folder=tmp_path / "new")
    monkeypatch.setenv("KERASSEQ_OFFLINE", said)
    assert download_pairs("en-fr", folder=tmp_path / "new")[0] == PAIRS


@pytest.mark.parametrize(
    "happens, becomes, message",
    [
        (OSError(errno.ENOSPC, "No space left on device"), OSError,
         "could not be written: No space left on device. Make room"),
        (KeyboardInterrupt(), KeyboardInterrupt, "^$"),
    ],
)  # fmt: skip
def test_a_full_disk_and_ctrl_c_leave_nothing(
    server, tmp_path, monkeypatch, happens, becomes, message
):
    def fails(handle):
        assert names(tmp_path / "new") != []  # something has been written by now
        raise happens

    monkeypatch.setattr(downloads.os, "fsync", fails)
    with pytest.raises(becomes, match=message):
        download_pairs("en-fr", folder=tmp_path / "new")
    assert names(tmp_path / "new") == []


def test_a_folder_that_cannot_be_made(server, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match="could not be written"):
        download_pairs("en-fr", folder=tmp_path / "file" / "new")


def test_a_file_that_is_there(server, tmp_path, monkeypatch):
    monkeypatch.setenv("KERASSEQ_OFFLINE", "1")
    for name, data in (("own.zip", archive(name="fra.txt")), ("a.txt", TEXT.encode())):
        (tmp_path / name).write_bytes(data)
        assert download_pairs("en-fr", path=tmp_path / name)[0] == PAIRS
    (tmp_path / "other.zip").write_bytes(archive(name="deu.txt"))
    with pytest.raises(ValueError, match="other.zip is an archive without fra.txt"):
        download_pairs("en-fr", path=tmp_path / "other.zip")
    with pytest.raises(FileNotFoundError, match="no file none.zip"):
        download_pairs("en-fr", path=tmp_path / "none.zip")
    with pytest.raises(IsADirectoryError):
        download_pairs("en-fr", path=tmp_path)
    with pytest.raises(ValueError, match='Did you mean "en-fr"'):
        download_pairs("en-ft")


def test_what_is_shown(server, tmp_path, monkeypatch, capsys):
    download_pairs("en-fr", folder=tmp_path / "a")
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == f"Downloading {server.url} ({len(server.body)} bytes)\n"
    download_pairs("en-fr", folder=tmp_path / "b", progress=False)
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes it for a terminal
    monkeypatch.setenv("TERM", "xterm")
    server.says = "nothing"  # of unknown size
    download_pairs("en-fr", folder=tmp_path / "c")
    assert "fra-eng.zip" in capsys.readouterr().err
