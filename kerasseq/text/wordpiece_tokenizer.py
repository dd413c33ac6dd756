"""WordPiece, the tokenizer of BERT: words as few long pieces.

A text is cleaned and cut into words as `bert_normalizer` tells. From the start of a
word the longest piece that is in the vocabulary is taken, then the longest one from
there on, up to the end; pieces inside a word begin with `##`:

    unhappily  →  un ##happi ##ly

If no piece fits somewhere, the whole word is unknown. How pieces are learned is told in
`wordpiece_training`.

Schuster and Nakajima 2012; Devlin et al. 2018 (BERT). Left out: the marks around a
text, `[CLS]` and `[SEP]`, which models add; joining "do n't" after decoding.
"""

from kerasseq.core.checks import one_of, whole_number
from kerasseq.core.schema import check
from kerasseq.text.bert_normalizer import BertNormalizer, is_punctuation
from kerasseq.text.bert_vocabulary import read_bert_vocabulary
from kerasseq.text.texts import special_tokens as checked_special_tokens
from kerasseq.text.word_based import WordBased, check_bool
from kerasseq.text.wordpiece_matching import longest_pieces
from kerasseq.text.wordpiece_training import ScoredMerge, alphabet, learn, read_merges

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
OPTIONS = ("unknown", "lowercase", "strip_accents", "split_chinese", "clean", "prefix")
OPTIONS += ("max_word_length", "score", "min_count")
SCHEMA = {
    "vocabulary_size": int,
    "special_tokens": [str],
    "unknown": str,
    "lowercase": bool,
    "strip_accents": bool | None,
    "split_chinese": bool,
    "clean": bool,
    "prefix": str,
    "max_word_length": int,
    "score": str,
    "min_count": int,
    "vocabulary": [str],
    "merges": [(str, str, int, float)],
}
REMEMBERED = 2**16  # words; a text has few that are not among them


class WordPieceTokenizer(WordBased):
    """Turn text into the longest known pieces of its words, and back.

    `decode` gives the normalised text: pieces joined to words, single spaces between
    words and around punctuation.

    Args:
        vocabulary_size: How many ids there may be: special tokens, characters and
            learned pieces. It stays smaller if no pair occurs `min_count` times.
        special_tokens: Tokens that are never split. They get the first ids.
        unknown: The token for words that no pieces make up; one of the special ones.
        lowercase: Whether capitals become small letters.
        strip_accents: Whether é becomes e. With None, if `lowercase`, as in BERT.
        split_chinese: Whether each Chinese character is a word.
        clean: Whether control characters and U+FFFD are removed.
        prefix: What pieces inside a word begin with in the vocabulary. It must hold
            punctuation, so that no word begins with it.
        max_word_length: A longer word, in characters, is unknown; `fit` passes it over.
        score: What decides which pair is merged: "count", as Hugging Face's trainer
            does, or "likelihood" (Schuster and Nakajima), whose rare pairs make longer
            encodings.
        min_count: A pair that occurs less often is not merged.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If it is out of range.

    Examples:
        >>> text = "Low, lower, lowest: slow."
        >>> tokenizer = WordPieceTokenizer(28, score="count").fit(text)
        >>> [(merge.token, merge.count) for merge in tokenizer.trace()]
        [('##ow', 4), ('low', 3), ('lowe', 2)]
        >>> tokenizer.tokenize("Slow towel")
        ['s', '##l', '##ow', 't', '##ow', '##e', '##l']
    """

    def __init__(
        self,
        vocabulary_size: int = 8000,
        *,
        special_tokens=SPECIAL_TOKENS,
        unknown: str = "[UNK]",
        lowercase: bool = True,
        strip_accents: bool | None = None,
        split_chinese: bool = True,
        clean: bool = True,
        prefix: str = "##",
        max_word_length: int = 100,
        score: str = "count",
        min_count: int = 2,
    ):
        self.wanted_size = whole_number("vocabulary_size", vocabulary_size)
        for name, value in (("unknown", unknown), ("prefix", prefix)):
            if not isinstance(value, str):
                raise TypeError(f"{name} must be a string, got {value!r}")
        self.unknown = unknown
        self.special_tokens = checked_special_tokens(special_tokens, unknown)
        self.lowercase = check_bool("lowercase", lowercase)
        if strip_accents is not None:
            check_bool("strip_accents", strip_accents)
        self.strip_accents = strip_accents
        self.split_chinese = check_bool("split_chinese", split_chinese)
        self.clean = check_bool("clean", clean)
        # No word has punctuation inside, so none is spelled like an inner piece.
        if not any(map(is_punctuation, prefix)):
            raise ValueError(
                f'prefix must hold punctuation, as "##" does, got {prefix!r}'
            )
        self.prefix = prefix
        self.max_word_length = whole_number("max_word_length", max_word_length)
        self.score = one_of("score", score, ["likelihood", "count"])
        self.min_count = whole_number("min_count", min_count)
        self._normalizer = BertNormalizer(
            lowercase=lowercase,
            strip_accents=lowercase if strip_accents is None else strip_accents,
            split_chinese=split_chinese,
            clean=clean,
        )
        self._use([], [])

    def fit(self, text) -> "WordPieceTokenizer":
        """Learn pieces.

        Args:
            text: The training text, or several. A second `fit` replaces the first.

        Returns:
            The tokenizer itself.

        Raises:
            TypeError: If there is something else than strings.
            ValueError: If there are no words, half a surrogate pair is in a text, or
                `vocabulary_size` is below the number of special tokens and characters.
        """
        found = self._training_words(text)
        words = {w: n for w, n in found.items() if len(w) <= self.max_word_length}
        if not words:
            raise ValueError(
                f"`text` has no words of at most {self.max_word_length} characters"
            )
        start = [*self.special_tokens, *alphabet(words, self.prefix)]
        start = list(dict.fromkeys(start))  # a special token may be one character
        if self.wanted_size < len(start):
            raise ValueError(
                f"vocabulary_size={self.wanted_size} is too small: the special tokens "
                f"and the characters of the text need {len(start)}"
            )
        options = {
            name: getattr(self, name) for name in ("prefix", "score", "min_count")
        }
        self._use(*learn(words, start, self.wanted_size, **options))
        return self

    def _use(self, vocabulary, merges):
        """Take over what was learned, and what makes encoding fast."""
        self._vocabulary, self._merges = vocabulary, merges
        self._ids = {token: i for i, token in enumerate(vocabulary)}
        self._longest = max(map(len, vocabulary), default=0)
        self._remembered = {}

    def trace(self) -> list[ScoredMerge]:
        """Every merge in order, with its count and score: the whole training.

        Returns:
            `ScoredMerge`s; none if the vocabulary came from elsewhere.

        Examples:
            >>> WordPieceTokenizer(12, score="likelihood").fit("ab ab").trace()
            [ScoredMerge(left='a', right='##b', token='ab', count=2, score=0.5)]
        """
        return list(self._merges)

    def _words(self, text):
        return self._normalizer.words(text)

    def _is_unknown(self, word):
        return self._ids_of(word) == [self._ids[self.unknown]]

    def _encode_part(self, text):
        ids, remembered = [], self._remembered
        for word in self._normalizer.words(text):
            found = remembered.get(word)
            ids += self._ids_of(word) if found is None else found
        return ids

    def _ids_of(self, word: str) -> list[int]:
        """The ids of a word, remembered for the next time."""
        if len(word) > self.max_word_length:
            return [self._ids[self.unknown]]
        if word not in self._remembered:
            if len(self._remembered) >= REMEMBERED:
                self._remembered.clear()
            found = longest_pieces(word, self._ids, self.prefix, self._longest)
            unknown = [(self._ids[self.unknown], 0, len(word))]
            self._remembered[word] = [i for i, _, _ in found or unknown]
        return self._remembered[word]

    def _places(self, text):
        places = []
        for word, origin in self._normalizer.words_with_origins(text):
            ids = self._ids_of(word)
            if len(ids) == 1:  # also where it is the unknown one
                places.append((ids[0], origin[0], origin[-1] + 1))
                continue
            start = 0
            for i in ids:
                size = len(self._vocabulary[i]) - (len(self.prefix) if start else 0)
                end = start + size
                places.append((i, origin[start], origin[end - 1] + 1))
                start = end
        return places

    def _join(self, tokens):
        return " ".join(tokens).replace(" " + self.prefix, "")

    def get_config(self) -> dict:
        """Return what `from_config` needs to build an equal tokenizer: plain JSON."""
        return {
            "vocabulary_size": self.wanted_size,
            "special_tokens": list(self.special_tokens),
            **{name: getattr(self, name) for name in OPTIONS},
            "vocabulary": list(self._vocabulary),
            "merges": [[m.left, m.right, m.count, m.score] for m in self._merges],
        }

    @classmethod
    def from_config(cls, config: dict) -> "WordPieceTokenizer":
        """Build a tokenizer from what `get_config` gave.

        Raises:
            TypeError: If a value is of the wrong type.
            ValueError: If a key is missing or strange, tokens repeat, or merges do not
                fit the vocabulary.
        """
        check(config, SCHEMA)
        options = dict(config)
        vocabulary, merges = options.pop("vocabulary"), options.pop("merges")
        tokenizer = cls(**options)
        tokenizer._check_vocabulary(vocabulary)
        merges = read_merges(merges, set(vocabulary), tokenizer.prefix)
        tokenizer._use(list(vocabulary), merges)
        return tokenizer

    @classmethod
    def from_vocabulary(cls, tokens, **options) -> "WordPieceTokenizer":
        """Build a tokenizer from a vocabulary learned elsewhere, in place of `fit`.

        Args:
            tokens: All tokens in the order of their ids, special ones included.
            options: As for the constructor, without `vocabulary_size`. Special tokens
                are by default those of BERT that are in the vocabulary.

        Returns:
            The tokenizer, fitted.

        Raises:
            TypeError: If an option is strange or of the wrong type.
            ValueError: If there are no tokens, one is empty or twice, or a special one
                or the unknown one is not among them.

        Examples:
            >>> tokens = ["[UNK]", "un", "##happi", "##ly"]
            >>> tokenizer = WordPieceTokenizer.from_vocabulary(tokens)
            >>> tokenizer.encode("Unhappily, un")
            array([1, 2, 3, 0, 1], dtype=int32)
            >>> tokenizer.decode([1, 2, 3, 0, 1])
            'unhappily [UNK] un'
        """
        tokens = tokens if isinstance(tokens, str) else list(tokens)
        if not tokens:
            raise ValueError("the vocabulary is empty")
        if "special_tokens" not in options:
            options["special_tokens"] = [t for t in tokens if t in SPECIAL_TOKENS]
        tokenizer = cls(len(tokens), **options)
        tokenizer._check_vocabulary(tokens)
        tokenizer._use(tokens, [])
        return tokenizer

    @classmethod
    def from_vocab_file(cls, path, **options) -> "WordPieceTokenizer":
        """Build a tokenizer from BERT's `vocab.txt`, one token per line.

        Args:
            path: The file, in UTF-8.
            options: As in `from_vocabulary`; `lowercase=False` for a cased model.

        Returns:
            The tokenizer, fitted.

        Raises:
            FileNotFoundError: If there is no such file.
            TypeError: If an option is strange or of the wrong type.
            ValueError: If the file is not UTF-8, a line is empty or a repetition, or a
                special token is missing; the text says which.
        """
        tokens = read_bert_vocabulary(path)
        try:
            return cls.from_vocabulary(tokens, **options)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
