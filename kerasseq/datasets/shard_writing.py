"""`prepare_shards`: writes the ids of a text of any size as `TokenShards`.

The text is read piece by piece and encoded by several processes, in its order, so that
the files do not depend on how many there are. Whenever a file is full, the index says
so: an interrupted call goes on behind the last full file.
"""

import collections
import concurrent.futures
import contextlib
import hashlib
import json
import multiprocessing
import os
import pathlib
import signal
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kerasseq.core.checks import fraction, several, short, whole_number
from kerasseq.core.files import as_path, replacing, temporary_path
from kerasseq.core.types import FilePath
from kerasseq.datasets import documents
from kerasseq.datasets.token_shards import (
    FORMAT,
    INDEX,
    PARTS,
    TOKENIZER,
    VERSION,
    TokenShards,
    ends_file,
    fingerprint,
    read_index,
)

if TYPE_CHECKING:
    from kerasseq.text.tokenizers.tokenizer import Tokenizer

CHUNK = 2**20  # characters that a process encodes at a time
WAITING = 3  # chunks of each process that are read ahead
SHARD = 2**24  # tokens of a file
BLOCK = 64  # tokens of a block of what is returned, as is usual
END_TOKENS = (
    "<|endoftext|>",
    "<|end_of_text|>",
    "</s>",
    "<eos>",
    "<|im_end|>",
    "[SEP]",
)

Progress = Callable[[int], None]


class Chunk(NamedTuple):
    """Pieces of documents that are encoded together.

    Attributes:
        texts: The pieces.
        are_ends: Whether a document ends with each.
        numbers: The number of the document of each.
        read: Bytes of files that are read, to the end of the chunk.
    """

    texts: list[str]
    are_ends: list[bool]
    numbers: list[int]
    read: int


def prepare_shards(
    source: FilePath | Iterable[FilePath],
    tokenizer: Any,
    path: FilePath,
    *,
    held_out: float = 0.005,
    column: str = "text",
    separator: str = "<|endoftext|>",
    encoding: str = "utf-8",
    shard_tokens: int = SHARD,
    processes: int = 1,
    seed: int = 0,
    progress: Progress | None = None,
) -> TokenShards:
    """Encodes files of any size, and writes the ids into a folder.

    A document is a line of JSON lines, a row of parquet, or a text file, or what
    `separator` divides in one. It ends with the end token of the tokenizer, if this has
    one, such as `<|endoftext|>`. Long documents are encoded in pieces of a million
    characters, cut where a line ends; a `UnigramTokenizer` begins each with its mark
    of a space, the others give the ids of the whole.

    Args:
        source: A file, a folder, or several: `.txt` and `.jsonl`, each also `.gz`, and
            `.parquet`, for which pyarrow must be installed. The content of a folder is
            read in the order of the names.
        tokenizer: A fitted tokenizer.
        path: The folder to write, new or empty; or one of the same call that was
            interrupted, which goes on, or is finished, which reads it.
        held_out: Fraction of the documents that is held out, each by a draw of its own.
            If none is drawn, the end of the text is held out instead.
        column: The key of the text in JSON lines, or its column in parquet.
        separator: What separates the documents of a text file; "" if one is all of it.
        encoding: Name of the encoding of texts and JSON lines.
        shard_tokens: Tokens of a file, at least; it ends with a million characters of
            text. What is read since the last full one is read again after an
            interruption.
        processes: Processes that encode. With several, a program must be protected by
            `if __name__ == "__main__":`, as they import it.
        seed: Seed of the documents that are held out.
        progress: Called with the number of bytes of the files that are done.

    Returns:
        The `TokenShards` of the training part, with blocks of 64 tokens, or of as many
        as there are.

    Raises:
        FileNotFoundError: If a file is missing, or a folder has none that is read.
        ImportError: If pyarrow is needed, and not installed.
        OSError: If the disk is full. The same call goes on afterwards.
        TypeError: If an argument is of the wrong type.
        ValueError: If a file is damaged, in another encoding or without a text, or the
            folder holds something else.

    Examples:
        >>> import tempfile
        >>> from kerasseq.text import CharacterTokenizer
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "a.txt").write_text("to be<|endoftext|>or not")
        >>> tokenizer = CharacterTokenizer().fit("to be or not")
        >>> shards = prepare_shards(
        ...     folder / "a.txt", tokenizer, folder / "ids", held_out=0
        ... )
        >>> len(shards.ids), shards.ends.tolist()
        (11, [5, 11])
    """
    one = isinstance(source, str | os.PathLike)
    files = [source] if one else several("source", source, "files")
    if not files:
        raise ValueError("source must name a file or a folder, received none")
    files, _ = documents.find_files(as_path("source", file) for file in files)
    tokenizer = _checked_tokenizer(tokenizer)
    for name, word in (("column", column), ("separator", separator)):
        if not isinstance(word, str):
            raise TypeError(f"{name} must be a string, received {short(word)}")
    text = documents.Source(tuple(files), column, encoding, separator)
    folder = as_path("path", path)
    settings = {
        "held_out": fraction("held_out", held_out),
        "shard_tokens": whole_number("shard_tokens", shard_tokens),
        "seed": whole_number("seed", seed, 0),
    }
    whole_number("processes", processes)
    index = _opened(folder, tokenizer, text, settings)
    if not index["finished"]:
        writer = _Writer(folder, index, np.dtype(index["type"]))
        try:
            _write(writer, text, tokenizer, settings, processes, progress)
        except ValueError:  # a wrong file, which the user must change
            _remove_empty(folder, index)
            raise
        finally:
            writer.close()
        _finish(folder, index, settings["held_out"])
    if progress is not None:
        progress(text.size)
    shards = TokenShards(folder, sequence_length=1)  # which the shortest text has
    return shards.with_length(max(min(BLOCK, len(shards.ids) - 1), 1))


def _checked_tokenizer(tokenizer):
    from kerasseq.text.tokenizers.conversion import fitted_tokenizer  # few need it

    tokenizer = fitted_tokenizer(tokenizer)
    if not hasattr(tokenizer, "own_config"):
        raise TypeError(
            "tokenizer must be one of kerasseq.text, which is saved with the ids, "
            f"received {short(tokenizer)}"
        )
    return tokenizer


def end_token(tokenizer: "Tokenizer") -> str | None:
    """Returns the special token that ends a document; None if there is none."""
    known = set(tokenizer.special_tokens)
    return next((token for token in END_TOKENS if token in known), None)


# The folder and its index


def _opened(folder, tokenizer, text, settings) -> dict[str, Any]:
    """Returns the index of a folder: a new one, or that of an interrupted call."""
    made_from = _record(tokenizer, text, settings)
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"expected a folder for the shards, received {folder}")
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / INDEX).exists():
        index = read_index(folder)
        before = index["made_from"]
        other = [name for name in made_from if before.get(name) != made_from[name]]
        if "files" in other:
            raise ValueError(
                f"{folder} holds shards of other files, or these have changed since. "
                "Choose another folder, or delete this one first"
            )
        if other:
            raise ValueError(
                f"{folder} holds shards of another {other[0].replace('_', ' ')}, "
                f"{short(before.get(other[0]))} instead of "
                f"{short(made_from[other[0]])}. Choose another folder, or delete this "
                "one first"
            )
        return index
    if any(folder.iterdir()):
        raise ValueError(
            f"{folder} is not empty, and holds no shards: choose a new folder"
        )
    tokenizer.save(folder / TOKENIZER)
    index = {
        "format": FORMAT,
        "version": VERSION,
        "type": "<u2" if tokenizer.vocabulary_size <= 2**16 else "<u4",
        "vocabulary_size": tokenizer.vocabulary_size,
        "tokenizer": made_from["tokenizer"],
        "finished": False,
        "held_out_is_end": False,
        "chunks": 0,
        "parts": {part: [] for part in PARTS},
        "made_from": made_from,
    }
    try:
        _save(folder, index)
    except BaseException:  # else the next call finds a folder that is not empty
        (folder / TOKENIZER).unlink()
        raise
    return index


def _record(tokenizer, text, settings):
    """Returns what the ids depend on: an interrupted call goes on if it is the same."""
    states = [(str(file.resolve()), file.stat()) for file in text.files]
    files = [[name, state.st_size, state.st_mtime_ns] for name, state in states]
    return {
        "tokenizer": fingerprint(tokenizer),
        "files": hashlib.sha256(json.dumps(files).encode()).hexdigest(),
        "column": text.column,
        "encoding": text.encoding,
        "separator": text.separator,
        **settings,
    }


def _save(folder, index):
    with replacing(folder / INDEX) as temporary:
        temporary.write_text(json.dumps(index, indent=1), encoding="utf-8")


def _remove_empty(folder, index):
    """Removes a folder in which no file is kept."""
    if not any(index["parts"].values()):
        for name in (INDEX, TOKENIZER):
            (folder / name).unlink()
        with contextlib.suppress(OSError):  # it has files of another
            folder.rmdir()


# Reading and encoding


def _write(writer, text, tokenizer, settings, processes, progress):
    end = end_token(tokenizer)
    end = None if end is None else tokenizer.id_of(end)
    chunks = (chunk for n, chunk in enumerate(chunks_of(text)) if n >= writer.done)
    work = tokenizer, end, writer.kind.str
    for chunk, ids, lengths in encoded(chunks, work, processes):
        is_held_out = {
            number: draw(settings["seed"], number) < settings["held_out"]
            for number in set(chunk.numbers)
        }
        held_out = np.array([is_held_out[number] for number in chunk.numbers])
        writer.add(ids, lengths, np.array(chunk.are_ends), held_out)
        if writer.tokens >= settings["shard_tokens"]:
            writer.keep()
        if progress is not None:
            progress(chunk.read)
    writer.keep()
    parts, named = writer.index["parts"], ", ".join(map(str, text.files[:3]))
    if not any(parts.values()):
        raise ValueError(f"the files have no text: {named}")
    tokens = sum(shard["tokens"] for shard in parts["training"])
    if tokens < 2:
        raise ValueError(
            f"expected two tokens to train on at least, an input and its target, "
            f"received {tokens}, of {named}. Give more text, or a smaller held_out"
        )


def chunks_of(text: documents.Source) -> Iterator[Chunk]:
    """Yields the pieces of a text in chunks of about `CHUNK` characters each."""
    chunk, size, number = Chunk([], [], [], 0), 0, 0
    for piece, read in text.pieces():
        chunk.texts.append(piece.text)
        chunk.are_ends.append(piece.is_end)
        chunk.numbers.append(number)
        number += piece.is_end
        size += len(piece.text)
        if size >= CHUNK:
            yield chunk._replace(read=read)
            chunk, size = Chunk([], [], [], 0), 0
    if chunk.texts:
        yield chunk._replace(read=text.size)


def draw(seed: int, number: int) -> float:
    """Returns a number in [0, 1) that depends on the seed and a document's number."""
    digest = hashlib.blake2b(f"{seed} {number}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") / 2**64


def encoded(
    chunks: Iterable[Chunk], work: "tuple[Tokenizer, int | None, str]", processes: int
) -> Iterator[tuple[Chunk, np.ndarray, np.ndarray]]:
    """Yields chunks in their order, with their ids and the number of ids of each piece.

    Args:
        chunks: The chunks.
        work: The tokenizer, the id of the end token or None, and the type of the ids.
        processes: Processes that encode; 1 encodes in this one.
    """
    if processes == 1:
        yield from ((chunk, *encode_chunk(chunk, *work)) for chunk in chunks)
        return
    pool = concurrent.futures.ProcessPoolExecutor(
        processes, multiprocessing.get_context("spawn"), _begin, work
    )
    waiting = collections.deque()
    try:
        for chunk in chunks:
            with _no_interrupt():  # it may start a process
                waiting.append((chunk, pool.submit(_encode, chunk)))
            if len(waiting) >= WAITING * processes:
                first, future = waiting.popleft()
                yield first, *future.result()
        while waiting:
            first, future = waiting.popleft()
            yield first, *future.result()
    finally:
        pool.shutdown(cancel_futures=True)


@contextlib.contextmanager
def _no_interrupt() -> Iterator[None]:
    """Delays Ctrl-C until the end of a block; what starts in it never sees one."""
    if not hasattr(signal, "pthread_sigmask"):  # on Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_of_process: list[Any] = []  # what a process that encodes was given at its start


def _begin(*work):
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that writes stops it
    _of_process[:] = work


def _encode(chunk):
    return encode_chunk(chunk, *_of_process)


def encode_chunk(
    chunk: Chunk, tokenizer: "Tokenizer", end: int | None, kind: str
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the ids of a chunk, and the number of ids of each of its pieces."""
    last = np.array([] if end is None else [end], kind)
    parts = []
    for ids, is_end in zip(tokenizer.encode(chunk.texts), chunk.are_ends, strict=True):
        ids = ids.astype(kind)
        parts.append(np.concatenate([ids, last]) if is_end else ids)
    return np.concatenate(parts), np.array([len(part) for part in parts])


# Writing


class _Writer:
    """Writes ids into the files of both parts; the index has those that are full."""

    def __init__(self, folder: pathlib.Path, index: dict[str, Any], kind: np.dtype):
        self.folder, self.index, self.kind = folder, index, kind
        self.done = index["chunks"]
        self.chunks = 0  # that were added since the index was saved
        self._files, self._ends, self._counts = {}, {}, {}

    @property
    def tokens(self) -> int:
        """Tokens that were added since the last full file."""
        return sum(self._counts.values())

    def add(self, ids, lengths, are_ends, held_out):
        of_token = np.repeat(held_out, lengths)
        for part, chosen in (("training", ~held_out), ("held_out", held_out)):
            if chosen.any():
                own = np.cumsum(lengths[chosen])[are_ends[chosen]]
                mask = of_token if part == "held_out" else ~of_token
                self._append(part, ids[mask] if held_out.any() else ids, own)
        self.chunks += 1

    def _append(self, part, ids, ends):
        if part not in self._files:
            name = f"{part}-{len(self.index['parts'][part]):05}.bin"
            # Its name has the number of the process: another one that prepares the
            # same folder at the same time does not disturb.
            self._files[part] = temporary_path(self.folder / name).open("wb")
            self._ends[part], self._counts[part] = [], 0
        self._files[part].write(ids.tobytes())
        self._ends[part].append(ends + self._counts[part])
        self._counts[part] += len(ids)

    def keep(self):
        """Keeps what was added: moves the files to their names, and saves the index."""
        for part, file in self._files.items():
            file.flush()
            os.fsync(file.fileno())
            file.close()
            name = f"{part}-{len(self.index['parts'][part]):05}.bin"
            _write_ends(self.folder / name, np.concatenate(self._ends[part]))
            os.replace(file.name, self.folder / name)
            shard = {"file": name, "tokens": self._counts[part]}
            self.index["parts"][part].append(shard)
        self._files, self._ends, self._counts = {}, {}, {}
        self.index["chunks"] += self.chunks
        self.chunks = 0
        _save(self.folder, self.index)

    def close(self):
        """Deletes what was not kept."""
        for file in self._files.values():
            file.close()
            pathlib.Path(file.name).unlink(missing_ok=True)


def _write_ends(file, ends):
    ends.astype("<i8").tofile(ends_file(file))


def _finish(folder, index, held_out):
    """Holds out the end of the text if no document was drawn; ends the index."""
    if held_out and not index["parts"]["held_out"]:
        last = index["parts"]["training"][-1]
        total = sum(shard["tokens"] for shard in index["parts"]["training"])
        # Two tokens are left to train on: an input and its target.
        count = min(max(round(held_out * total), 1), last["tokens"] - 2)
        if count > 0:
            _move_end(folder, index, last, last["tokens"] - count)
    index["finished"] = True
    _save(folder, index)


def _move_end(folder, index, shard, kept):
    """Moves the ids after the first `kept` of a file into the held-out part.

    The file keeps them, but the index does not count them.
    """
    source, target = folder / shard["file"], folder / "held_out-00000.bin"
    ids, ends = (
        np.fromfile(source, index["type"]),
        np.fromfile(ends_file(source), "<i8"),
    )
    ids[kept : shard["tokens"]].tofile(target)
    _write_ends(target, ends[ends > kept] - kept)
    count = shard["tokens"] - kept
    index["parts"]["held_out"].append({"file": target.name, "tokens": count})
    shard["tokens"] = kept
    index["held_out_is_end"] = True
