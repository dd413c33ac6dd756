r"""How a Whisper model decodes: its special ids, and which ids it never writes."""

from collections.abc import Iterable, Mapping
from typing import Any, Self

from kerasseq.core import checks
from kerasseq.core.serialization import register
from kerasseq.core.types import Config
from kerasseq.models.whisper import special_tokens as tokens
from kerasseq.models.whisper.special_tokens import ALIASES, LANGUAGES
from kerasseq.text.tokenizers.byte_pair_tokenizer import BytePairTokenizer
from kerasseq.text.tokenizers.tokenizer import Tokenizer

TRANSCRIBE = "transcribe"


@register
class WhisperGeneration:
    r"""Settings of the decoding of a Whisper model, saved with it.

    A transcript begins with $[\text{start}, \text{language}, \text{task},
    \text{no timestamps}]$, as far as the model has such tokens. A model with a
    tokenizer of its own needs only start and end.

    Args:
        start: Id of the start of a transcript.
        end: Id of its end.
        padding: Id of padding; that of the end if None.
        languages: Id of each language by its code, such as "en"; None for a model of
            one language.
        tasks: Id of each task, "transcribe" and "translate".
        no_timestamps: Id that says that no times follow; None for a model without.
        first_timestamp: Id of 0.00 s, which those of later times follow;
            `no_timestamps` + 1 if None.
        previous: Id before the text of what was heard before.
        no_speech: Id whose probability at the start is that of no speech;
            `no_timestamps` - 1 if None.
        suppress_tokens: Ids that no transcript has.
        begin_suppress_tokens: Ids that no transcript begins with.
        max_initial_timestamp_index: How many steps of 20 ms the first time may be
            after 0.00 s; None for no limit.
        alignment_heads: Pairs of decoder layer and head whose cross-attention follows
            the sound; empty for all heads of the upper half of the layers.
        max_length: The most tokens of a transcript; None for as many as the decoder
            has positions.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If it is out of range.

    Examples:
        >>> settings = WhisperGeneration(
        ...     7, 8, languages={"en": 9, "de": 10}, tasks={"transcribe": 11},
        ...     no_timestamps=13
        ... )
        >>> settings.prompt("de"), settings.prompt("en", timestamps=True)
        ([7, 10, 11, 13], [7, 9, 11])
        >>> WhisperGeneration(7, 8).prompt()
        [7]

    References:
        Radford et al. 2022, section 2.3; `generation_config.json` of Hugging Face.
    """

    def __init__(
        self,
        start: int,
        end: int,
        *,
        padding: int | None = None,
        languages: Mapping[str, int] | None = None,
        tasks: Mapping[str, int] | None = None,
        no_timestamps: int | None = None,
        first_timestamp: int | None = None,
        previous: int | None = None,
        no_speech: int | None = None,
        suppress_tokens: Iterable[int] = (),
        begin_suppress_tokens: Iterable[int] = (),
        max_initial_timestamp_index: int | None = None,
        alignment_heads: Iterable[tuple[int, int]] = (),
        max_length: int | None = None,
    ) -> None:
        if no_timestamps is not None:
            mark = checks.whole_number("no_timestamps", no_timestamps, 1)
            first_timestamp = mark + 1 if first_timestamp is None else first_timestamp
            no_speech = mark - 1 if no_speech is None else no_speech
        self.start: int = _id("start", start)
        self.end: int = _id("end", end)
        self.padding: int = _id("padding", end if padding is None else padding)
        self.languages: dict[str, int] = _ids("languages", languages or {})
        self.tasks: dict[str, int] = _ids("tasks", tasks or {})
        for task in self.tasks:
            checks.one_of("tasks", task, tokens.TASKS)
        self.no_timestamps: int | None = _optional("no_timestamps", no_timestamps)
        self.first_timestamp: int | None = _optional("first_timestamp", first_timestamp)
        self.previous: int | None = _optional("previous", previous)
        self.no_speech: int | None = _optional("no_speech", no_speech)
        self.suppress_tokens: tuple[int, ...] = _several(
            "suppress_tokens", suppress_tokens
        )
        self.begin_suppress_tokens: tuple[int, ...] = _several(
            "begin_suppress_tokens", begin_suppress_tokens
        )
        self.max_initial_timestamp_index: int | None = _optional(
            "max_initial_timestamp_index", max_initial_timestamp_index
        )
        self.alignment_heads: tuple[tuple[int, int], ...] = tuple(
            map(_head, checks.several("alignment_heads", alignment_heads, "pairs"))
        )
        self.max_length: int | None = max_length
        if max_length is not None:
            self.max_length = checks.whole_number("max_length", max_length)

    @classmethod
    def from_tokenizer(
        cls, tokenizer: Tokenizer, *, multilingual: bool = True, **options: Any
    ) -> Self:
        """Reads the ids from the special tokens of a tokenizer.

        Args:
            tokenizer: A tokenizer of Whisper, or one of `extend_tokenizer`.
            multilingual: Whether the model uses the languages and tasks that the
                tokenizer has.
            **options: Arguments of the constructor, which override those ids.

        Raises:
            ValueError: If the tokenizer has no start or no end, or tokens after times.

        Examples:
            >>> tokenizer = BytePairTokenizer(9, level="character").fit("yes")
            >>> tokenizer = WhisperGeneration.extend_tokenizer(tokenizer, ["en", "de"])
            >>> settings = WhisperGeneration.from_tokenizer(tokenizer)
            >>> settings.prompt("german", "translate"), settings.end
            ([4, 6, 7, 12], 3)
        """
        id_of = {token: n for n, token in enumerate(tokenizer.vocabulary)}
        for token in (tokens.START, tokens.END):
            if token not in id_of:
                raise ValueError(
                    f"the tokenizer must have the token {token}, received "
                    f"{tokenizer!r}. Add it with WhisperGeneration.extend_tokenizer, "
                    "or give start= and end="
                )
        special = set(tokenizer.special_tokens)
        ids = {"previous": id_of.get(tokens.PREVIOUS), **_times(id_of)}
        no_speech = (id_of[name] for name in tokens.NO_SPEECH if name in id_of)
        ids["no_speech"] = next(no_speech, None)
        if multilingual:
            for name, words in {"languages": LANGUAGES, "tasks": tokens.TASKS}.items():
                known = (word for word in words if tokens.token_of(word) in special)
                ids[name] = {word: id_of[tokens.token_of(word)] for word in known}
        start, end = id_of[tokens.START], id_of[tokens.END]
        return cls(**{"start": start, "end": end, **ids, **options})

    @staticmethod
    def extend_tokenizer(
        tokenizer: BytePairTokenizer, languages: Iterable[str] = tuple(LANGUAGES)
    ) -> BytePairTokenizer:
        """Returns a tokenizer with the special tokens of Whisper after its own.

        With it a model can have languages, tasks and times.

        Args:
            tokenizer: A fitted tokenizer.
            languages: Codes of the languages.

        Raises:
            TypeError: If the tokenizer is no `BytePairTokenizer`.

        Examples:
            >>> tokenizer = BytePairTokenizer(5, level="character").fit("abc")
            >>> tokenizer = WhisperGeneration.extend_tokenizer(tokenizer, ["en"])
            >>> tokenizer.vocabulary[2:6]
            ['c', '<|endoftext|>', '<|startoftranscript|>', '<|en|>']
        """
        if not isinstance(tokenizer, BytePairTokenizer):
            raise TypeError(
                f"tokenizer must be a BytePairTokenizer, received {tokenizer!r}"
            )
        added = tokens.whisper_special_tokens(languages)
        return tokens.extended(tokenizer, added)

    @property
    def has_timestamps(self) -> bool:
        """Whether there are ids of times."""
        return self.no_timestamps is not None and self.first_timestamp is not None

    def prompt(
        self,
        language: str | None = None,
        task: str = TRANSCRIBE,
        timestamps: bool = False,
    ) -> list[int]:
        """Returns the ids that a transcript begins with.

        Args:
            language: Code or English name of the language; None for a model of one
                language.
            task: "transcribe", or "translate" into English.
            timestamps: Whether times follow.

        Raises:
            ValueError: If the model has no such language, task or times.
        """
        ids = [self.start]
        code, task = self.check_language(language), self.check_task(task)
        if code is not None:
            ids.append(self.languages[code])
        if task in self.tasks:
            ids.append(self.tasks[task])
        timestamps = self.check_timestamps(timestamps)
        if self.no_timestamps is not None and not timestamps:
            ids.append(self.no_timestamps)
        return ids

    def check_language(self, language: str | None) -> str | None:
        """Returns the code of a language that is given by code or English name.

        Examples:
            >>> WhisperGeneration(1, 2, languages={"de": 3}).check_language("German")
            'de'
            >>> WhisperGeneration(1, 2).check_language("en")
            Traceback (most recent call last):
            ValueError: language must be None for a model of one language, received \
'en'. A model with languages has ids of them in its settings of generation
        """
        if language is None:
            return None
        if not isinstance(language, str):
            raise TypeError(
                'language must be a code such as "en", or None, received '
                f"{checks.short(language)}"
            )
        if not self.languages:
            raise ValueError(
                "language must be None for a model of one language, received "
                f"{language!r}. A model with languages has ids of them in its settings "
                "of generation"
            )
        word = language.lower()
        codes = {name: code for code, name in LANGUAGES.items()} | ALIASES
        code = codes.get(word, word)
        if code not in self.languages:
            known = [c for name, c in codes.items() if c in self.languages]
            names = [name for name, c in codes.items() if c in self.languages]
            raise ValueError(
                f"language={language!r} is not one of {', '.join(self.languages)}, nor "
                f"an English name.{checks.nearest(word, [*names, *known])}"
            )
        return code

    def check_task(self, task: str) -> str:
        """Returns a task that the model has; each model transcribes."""
        checks.one_of("task", task, tokens.TASKS[::-1])
        if task != TRANSCRIBE and task not in self.tasks:
            raise ValueError(
                f'task must be "{TRANSCRIBE}", as the model has no id of another task, '
                f"received {task!r}. A multilingual model translates"
            )
        return task

    def check_timestamps(self, timestamps: object) -> bool:
        """Returns whether to write times, if the model has them."""
        if checks.flag("timestamps", timestamps) and not self.has_timestamps:
            raise ValueError(
                "timestamps must be False, as the model has no ids of times, received "
                "True. `times` of the transcript come from the attention"
            )
        return bool(timestamps)

    def check_model(
        self, vocabulary_size: int, num_layers: int, num_heads: int
    ) -> None:
        """Raises if an id or an alignment head is outside a model.

        Args:
            vocabulary_size: Number of ids of the model.
            num_layers: Layers of its decoder.
            num_heads: Heads of each.
        """
        for name, value in self.get_config().items():
            if name in ("alignment_heads", "max_length", "max_initial_timestamp_index"):
                continue
            ids = value.values() if isinstance(value, dict) else value
            for i in ids if isinstance(ids, Iterable) else [ids]:
                if i is not None and i >= vocabulary_size:
                    raise ValueError(
                        f"{name} must have ids below {vocabulary_size}, the vocabulary "
                        f"of the model, received {i}"
                    )
        for layer, head in self.alignment_heads:
            if layer >= num_layers or head >= num_heads:
                raise ValueError(
                    f"alignment_heads must be in {num_layers} layers of {num_heads} "
                    f"heads, received layer {layer}, head {head}, counted from 0"
                )

    def get_config(self) -> Config:
        """Returns the arguments as plain data."""
        config = dict(vars(self))
        config["suppress_tokens"] = list(self.suppress_tokens)
        config["begin_suppress_tokens"] = list(self.begin_suppress_tokens)
        config["alignment_heads"] = [list(pair) for pair in self.alignment_heads]
        return config

    @classmethod
    def from_config(cls, config: Config) -> Self:
        return cls(**config)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WhisperGeneration):
            return NotImplemented
        return self.get_config() == other.get_config()

    def __repr__(self) -> str:
        return (
            f"<WhisperGeneration: start {self.start}, end {self.end}, "
            f"{len(self.languages)} languages, "
            f"{'with' if self.has_timestamps else 'without'} times>"
        )


def _id(name: str, value: Any) -> int:
    return checks.whole_number(name, value, 0)


def _optional(name: str, value: Any) -> int | None:
    return None if value is None else _id(name, value)


def _several(name: str, ids: Any) -> tuple[int, ...]:
    return tuple(_id(name, i) for i in checks.several(name, ids, "ids"))


def _ids(name: str, table: Any) -> dict[str, int]:
    """Checks ids by word."""
    if not isinstance(table, Mapping) or not all(isinstance(k, str) for k in table):
        raise TypeError(
            f'{name} must give each word an id, such as {{"en": 7}}, received '
            f"{checks.short(table)}"
        )
    return {word: _id(f"{name}[{word!r}]", i) for word, i in table.items()}


def _head(pair: Any) -> tuple[int, int]:
    if not isinstance(pair, list | tuple) or len(pair) != 2:
        raise ValueError(
            "alignment_heads must be pairs of layer and head, such as (2, 5), received "
            f"{checks.short(pair)}"
        )
    return _id("alignment_heads", pair[0]), _id("alignment_heads", pair[1])


def _times(id_of: Mapping[str, int]) -> dict[str, int]:
    """Returns the ids of times and of the mark of no times, if there are times.

    In files of older tokenizers the mark is the last token, and times follow in the
    model.
    """
    mark, times = id_of.get(tokens.NO_TIMESTAMPS), tokens.timestamp_tokens()
    first = id_of.get(times[0])
    if mark is None or (first is None and mark < len(id_of) - 1):
        return {}
    if first is None:
        return {"no_timestamps": mark}
    last = max(id_of[token] for token in id_of.keys() - set(times))
    if last > first:
        raise ValueError(
            f"the tokenizer must have no tokens after those of times, received {last} "
            f"after {first}. Add them with WhisperGeneration.extend_tokenizer"
        )
    return {"no_timestamps": mark, "first_timestamp": first}
