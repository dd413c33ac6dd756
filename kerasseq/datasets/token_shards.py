"""`TokenShards`: the ids of a large text in files, of which only blocks are read.

A folder of `prepare_shards` has

| file | content |
|---|---|
| `index.json` | files, type of the ids, fingerprint of the tokenizer, what was read |
| `tokenizer.json` | the tokenizer |
| `training-00000.bin`, … | ids, without a header |
| `training-00000.ends`, … | int64: where documents end in this file |
| `held_out-00000.bin`, … | the same of the documents that are held out |

A folder of nanoGPT has `train.bin` and `val.bin`: ids of uint16 without a header.
"""

import copy
import hashlib
import json
import pathlib
from typing import TYPE_CHECKING, Any

import numpy as np

from kerasseq.core.checks import flag, one_of, optional, short, whole_number
from kerasseq.core.files import as_path, read_json, regular
from kerasseq.core.types import FilePath
from kerasseq.datasets.files import existing_folder
from kerasseq.datasets.joined_ids import JoinedIds

if TYPE_CHECKING:
    from kerasseq.text.tokenizers.tokenizer import Tokenizer

INDEX, TOKENIZER = "index.json", "tokenizer.json"
FORMAT, VERSION = "kerasseq.TokenShards", 1
PARTS = ("training", "held_out")
NANO_GPT = {"training": "train.bin", "held_out": "val.bin"}
NANO_GPT_TYPE = "<u2"
TYPES = ("<u2", "<u4")
SCANNED = 2**24  # ids in which ends are looked up at a time

Block = tuple[np.ndarray, ...]


def fingerprint(tokenizer: "Tokenizer") -> str:
    """Returns a checksum of a tokenizer: equal for those that give the same ids.

    The chat template does not count, as it is no part of how a text becomes ids.
    """
    config = {"class": type(tokenizer).__name__, **tokenizer.own_config()}
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()


class TokenShards:
    """The ids of a large text, as blocks of inputs and targets.

    The files are memory-mapped: a block is read when it is used, and the text need not
    fit into memory. `fit` of a language model reads it, and so does whatever reads an
    object with `len` and an index: `keras.utils.PyDataset`, Grain, a DataLoader of
    PyTorch, or `tf.data`.

    Args:
        path: A folder of `prepare_shards` or `kerasseq prepare`; or one of nanoGPT,
            with `train.bin` and `val.bin`.
        part: "training", or "held_out" for the documents that are held out.
        sequence_length: T, tokens of a block.
        documents_apart: False joins the documents, so that a block reads over the end
            of one, as GPT-2 and nanoGPT do. True ends a block where a document ends, so
            that attention and recurrent states never cross it; the shorter blocks are
            padded with 0.
        tokenizer: The tokenizer of a folder of nanoGPT, which has none.
        end: The id that ends a document there, 50256 for GPT-2.

    Attributes:
        ids: All ids `(tokens,)`, which are read where they are sliced.
        vocabulary_size: Number of ids of the tokenizer; None if it is not known.

    Raises:
        FileNotFoundError: If the folder or a file is missing.
        ValueError: If the files are damaged or not finished, the text is shorter than a
            block, or an argument does not fit.

    Examples:
        >>> import pathlib, tempfile
        >>> import kerasseq
        >>> from kerasseq.text import CharacterTokenizer
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "a.txt").write_text("to be or not to be " * 9)
        >>> tokenizer = CharacterTokenizer().fit("to be or not")
        >>> _ = kerasseq.datasets.prepare_shards(
        ...     folder / "a.txt", tokenizer, folder / "shards"
        ... )
        >>> shards = TokenShards(folder / "shards", sequence_length=5)
        >>> x, y = shards[1]
        >>> shards.tokenizer.decode(x), shards.tokenizer.decode(y)
        (' or n', 'or no')
    """

    def __init__(
        self,
        path: FilePath,
        part: str = "training",
        *,
        sequence_length: int = 64,
        documents_apart: bool = False,
        tokenizer: Any = None,
        end: int | None = None,
    ) -> None:
        self._arguments = {
            "path": path,
            "part": one_of("part", part, PARTS),
            "sequence_length": whole_number("sequence_length", sequence_length),
            "documents_apart": flag("documents_apart", documents_apart),
            "tokenizer": tokenizer,
            "end": optional(whole_number, "end", end, 0),
        }
        self.folder: pathlib.Path = existing_folder(path, "token shards")
        self.part: str = part
        self.sequence_length: int = sequence_length
        self.documents_apart: bool = documents_apart
        self._tokenizer, self._ends, self._rows = None, None, None
        self._end, self._ends_files, self._blocks = end, None, []
        self._start = 0  # of the ids of a slice, among all
        if (self.folder / INDEX).exists():
            files, kind = self._open_ours(tokenizer, end)
        else:
            files, kind = self._open_nano_gpt(tokenizer)
        self.ids: JoinedIds = JoinedIds([_mapped(*file, kind) for file in files])
        if not len(self.ids) and not documents_apart:
            change = "held_out above 0" if part == "held_out" else "a smaller held_out"
            raise ValueError(
                f"the {part} part of {self.folder} has no tokens. Prepare the text "
                f"again in another folder, with {change}"
            )
        if len(self.ids) < sequence_length + 1 and not documents_apart:
            raise ValueError(
                f"the {part} part of {self.folder} must have at least sequence_length "
                f"+ 1 = {sequence_length + 1} tokens, received {len(self.ids)}. Choose "
                "a shorter sequence_length, prepare more text, or hold out another part"
            )

    def _open_ours(self, tokenizer, end):
        if tokenizer is not None or end is not None:
            raise ValueError(
                f"tokenizer and end are for folders of nanoGPT: {self.folder} has its "
                "own. Leave them out"
            )
        index = read_index(self.folder)
        if not index["finished"]:
            raise ValueError(
                f"the shards in {self.folder} are not finished: run the same "
                "kerasseq prepare again, which goes on where it stopped"
            )
        self.vocabulary_size: int | None = index["vocabulary_size"]
        self.fingerprint: str | None = index["tokenizer"]
        shards = index["parts"][self.part]
        for shard in shards:
            file = regular(self.folder / shard["file"])
            if file.stat().st_size < shard["tokens"] * np.dtype(index["type"]).itemsize:
                raise ValueError(
                    f"{file} is damaged: expected {shard['tokens']:,} tokens. Prepare "
                    "the shards again in an empty folder"
                )
        self._ends_files = [
            (ends_file(self.folder / shard["file"]), shard["tokens"])
            for shard in shards
        ]
        return [(self.folder / s["file"], s["tokens"]) for s in shards], index["type"]

    def _open_nano_gpt(self, tokenizer):
        name = NANO_GPT[self.part]
        if not (self.folder / NANO_GPT["training"]).exists():
            raise FileNotFoundError(
                f"{self.folder} has neither {INDEX} of kerasseq prepare nor train.bin "
                "of nanoGPT"
            )
        if tokenizer is None:
            raise ValueError(
                f"{self.folder / name} has ids alone: give the tokenizer that made "
                "them, such as load_tokenizer of a folder of GPT-2, as `tokenizer`"
            )
        from kerasseq.text import as_tokenizer

        self._tokenizer = as_tokenizer(tokenizer)
        self.vocabulary_size = self._tokenizer.vocabulary_size
        self.fingerprint = fingerprint(self._tokenizer)
        file = regular(self.folder / name)
        tokens = file.stat().st_size // 2
        # Of the first ones, as the file may be larger than memory.
        largest = int(_mapped(file, tokens, NANO_GPT_TYPE)[:SCANNED].max(initial=0))
        if largest >= self.vocabulary_size:
            raise ValueError(
                f"{file} has the id {largest:,}, the tokenizer only ids below "
                f"{self.vocabulary_size:,}: give the one that made them"
            )
        return [(file, tokens)], NANO_GPT_TYPE

    @property
    def tokenizer(self) -> "Tokenizer":
        """The tokenizer of the ids."""
        if self._tokenizer is None:
            from kerasseq.text import load_tokenizer  # most data sets need no tokenizer

            self._tokenizer = load_tokenizer(self.folder / TOKENIZER)
        return self._tokenizer

    @property
    def ends(self) -> np.ndarray:
        """int64: where the documents end in `ids`, each after its last token.

        Raises:
            ValueError: If they are not known: those of nanoGPT need `end`.
        """
        if self._ends is None:
            ends, last = self._read_ends() - self._start, len(self.ids)
            ends = ends[(ends > 0) & (ends <= last)]
            if last and (not len(ends) or ends[-1] < last):
                ends = np.append(ends, last)  # what is cut off is a document, too
            self._ends = ends
        return self._ends

    def _read_ends(self):
        if self._ends_files is not None:
            starts = np.cumsum([0] + [tokens for _, tokens in self._ends_files])
            read = [_ends_up_to(*shard) for shard in self._ends_files]
            none = np.zeros(0, "int64")  # if no document is held out
            parts = [e + s for e, s in zip(read, starts, strict=False)]
            return np.concatenate([none, *parts])
        if self._end is None:
            raise ValueError(
                f"{self.folder} of nanoGPT does not say where its documents end: give "
                "the id that ends one as `end`, 50256 for GPT-2"
            )
        ends = [np.zeros(0, "int64")]
        for start in range(0, len(self.ids), SCANNED):
            part = np.asarray(self.ids[start : start + SCANNED])
            ends.append(start + 1 + np.flatnonzero(part == self._end))
        return np.concatenate(ends)

    @property
    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Where each block starts, and how many inputs it has: two arrays of int64."""
        if self._rows is None:
            T = self.sequence_length
            if self.documents_apart:
                self._rows = rows_of_documents(self.ends, T)
            else:
                starts = np.arange(0, len(self.ids) - T, T)
                self._rows = starts, np.full(len(starts), T)
        return self._rows

    def __len__(self) -> int:
        if self.documents_apart:
            return len(self.rows[0])
        return max(len(self.ids) - 1, 0) // self.sequence_length

    def __getitem__(self, number: int | slice) -> "Block | TokenShards":
        """Returns a block: inputs and targets `(T,)` of int32.

        With `documents_apart` also the weight of each target, float32 `(T,)`, which is
        0 at padding. A slice is `TokenShards` of these blocks.
        """
        if isinstance(number, slice):
            return self._sliced(range(len(self))[number])
        T = self.sequence_length
        if not self.documents_apart:
            start = range(len(self))[number] * T
            block = np.asarray(self.ids[start : start + T + 1])
            return block[:-1], block[1:]
        starts, lengths = self.rows
        start, n = int(starts[number]), int(lengths[number])
        block = np.asarray(self.ids[start : start + n + 1])
        x, y = np.zeros((2, T), "int32")
        x[:n], y[:n] = block[:-1], block[1:]
        return x, y, (np.arange(T) < n).astype("float32")

    def _sliced(self, numbers):
        if numbers.step != 1:
            raise ValueError(f"a slice of shards must have step 1, received {numbers}")
        part, T = copy.copy(self), self.sequence_length
        part._blocks = [*self._blocks, slice(numbers.start, numbers.stop)]
        chosen = slice(numbers.start, numbers.stop)
        if self.documents_apart:
            part._rows = tuple(column[chosen] for column in self.rows)
        else:
            part.ids = self.ids[numbers.start * T : numbers.stop * T + 1]
            part._start = self._start + numbers.start * T
            part._rows = part._ends = None
        return part

    def check_tokenizer(self, tokenizer: Any, vocabulary_size: int) -> None:
        """Raises if a model does not read these ids.

        Args:
            tokenizer: That of the model, or None.
            vocabulary_size: That of the model.

        Raises:
            ValueError: If it is another tokenizer, or has fewer ids.
        """
        known = hasattr(tokenizer, "own_config")  # one of kerasseq.text
        if known and fingerprint(tokenizer) != self.fingerprint:
            raise ValueError(
                f"the shards in {self.folder} were made with another tokenizer than "
                f"the model's, received {short(tokenizer)}. Build the model with "
                "shards.tokenizer, or prepare the text again"
            )
        if self.vocabulary_size > vocabulary_size:
            raise ValueError(
                f"the shards in {self.folder} have {self.vocabulary_size:,} ids, the "
                f"model {vocabulary_size:,}. Build it with shards.tokenizer"
            )

    def with_length(self, sequence_length: int) -> "TokenShards":
        """Returns the same shards with blocks of another length.

        Raises:
            ValueError: If it differs, and these are a slice of blocks.
        """
        if sequence_length == self.sequence_length:
            return self
        if self._blocks:
            raise ValueError(
                f"sequence_length must be {self.sequence_length}, that of the sliced "
                f"shards, received {sequence_length}"
            )
        return TokenShards(**self._arguments | {"sequence_length": sequence_length})

    # Other processes open the files themselves, as those of a DataLoader.
    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (self._arguments, self._blocks)

    def __repr__(self) -> str:
        return (
            f"<TokenShards: {len(self.ids):,} tokens of the {self.part} part of "
            f"{self.folder}>"
        )


def _opened(arguments, slices):
    """Returns the shards of these arguments, sliced one after the other."""
    shards = TokenShards(**arguments)
    for each in slices:
        shards = shards[each]
    return shards


def rows_of_documents(
    ends: np.ndarray, sequence_length: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the blocks of documents: starts, and numbers of inputs.

    A document of n tokens has n - 1 targets: one of a single token has no block.

    Args:
        ends: Where the documents end, each after its last token.
        sequence_length: T, the most inputs of a block.

    Examples:
        >>> starts, lengths = rows_of_documents(np.array([5, 6, 9]), 3)
        >>> starts.tolist(), lengths.tolist()
        ([0, 3, 6], [3, 1, 2])
    """
    T = sequence_length
    starts = np.concatenate([[0], ends])[:-1].astype("int64")
    targets = ends - starts - 1
    blocks = -(-targets // T)  # rounded up
    first = np.cumsum(blocks) - blocks
    number = np.arange(blocks.sum()) - np.repeat(first, blocks)  # in its document
    lengths = np.minimum(T, np.repeat(targets, blocks) - number * T)
    return np.repeat(starts, blocks) + number * T, lengths


def ends_file(file: pathlib.Path) -> pathlib.Path:
    """Returns the file with the ends of documents, beside one with ids."""
    return file.with_suffix(".ends")


def read_index(folder: FilePath) -> dict[str, Any]:
    """Returns the content of `index.json`.

    Raises:
        ValueError: If it is damaged, of another format or of a newer version.
    """
    file = as_path("path", folder) / INDEX
    index = read_json(file)
    if not isinstance(index, dict) or index.get("format") != FORMAT:
        raise ValueError(f"{file} is not an index of token shards")
    if index.get("version") != VERSION:
        raise ValueError(
            f"{file} has version {index.get('version')!r}; this kerasseq reads version "
            f"{VERSION}"
        )
    try:
        one_of("type", index["type"], TYPES)
        for part in PARTS:
            for shard in index["parts"][part]:
                is_named = isinstance(shard["file"], str) and "/" not in shard["file"]
                if not is_named or not isinstance(shard["tokens"], int):
                    raise ValueError(f"expected a file with tokens, received {shard}")
        wanted = ("vocabulary_size", "tokenizer", "finished", "held_out_is_end")
        wanted += ("chunks", "made_from")
        _ = [index[name] for name in wanted]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{file} is damaged: {error}") from error
    return index


def _mapped(file, tokens, kind):
    """Returns the ids in a file, which are read from it where they are used."""
    if not tokens:
        return np.zeros(0, kind)
    return np.memmap(file, kind, mode="r", shape=(tokens,))


def _ends_up_to(file, tokens):
    """Returns the ends of documents in a file that the index counts, up to `tokens`."""
    ends = np.fromfile(regular(file), "<i8")
    return ends[ends <= tokens]
