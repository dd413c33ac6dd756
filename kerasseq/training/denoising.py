r"""BART's pre-training: a text is corrupted, and the model restores it.

    text        A B C . D E .
    mask        A _ C . D _ .       random tokens become the mask token
    delete      A C . D .           random tokens are removed
    infill      A _ . _ D E .       spans become one mask token each
    permute     D E . A B C .       sentences in random order
    rotate      C . D E . A B       the text begins at a random token

The first three concern $m = \mathrm{rate} \cdot n$ of $n$ tokens, rounded up or down at
random, so that the rate is exact on average. Lengths of spans are drawn from
$\mathrm{Poisson}(3)$ until they add to $m$, the last one cut; a span of length 0
inserts a mask token. All orders of spans and kept tokens are equally likely.

Lewis et al. 2020, section 2.2. BART was trained with "permute" and "infill" of 30 % of
the tokens. Course slides D (BART).
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from kerasseq.core import checks
from kerasseq.text.tokenizers.conversion import AnyTokenizer, fitted_tokenizer
from kerasseq.text.tokenizers.tokenizer import Tokenizer
from kerasseq.training.batches import GroupedBatches
from kerasseq.training.denoising_batches import denoising_batches

KINDS = ("mask", "delete", "infill", "permute", "rotate")
MASK_TOKENS = ("<mask>", "[MASK]")
FULL_STOP = "."


class Denoising:
    """Corrupts texts for a model that restores them.

    The noise depends on the seed and the number of the text alone. It runs in NumPy, as
    part of the input pipeline.

    Args:
        kinds: One or several of "mask", "delete", "infill", "permute" and "rotate",
            applied in this order.
        seed: Random seed.
        tokenizer: A fitted tokenizer, whose mask token is `<mask>` or `[MASK]`, a
            special token. Texts may be strings then.
        mask_token_id: The id of the mask token, if there is no tokenizer.
        sentence_end_ids: Ids that end a sentence, for "permute"; those of full stops if
            None, which needs a tokenizer.
        rate: Fraction of the tokens that are masked, deleted or replaced by spans.
        mean_length: Mean length of a span.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If a number is out of range, a kind is unknown or given twice, or
            there is no mask token or no end of sentences for a kind that needs it.

    Examples:
        >>> corrupt = Denoising("infill", mask_token_id=99)
        >>> source, target = corrupt(np.arange(1, 21))
        >>> target.tolist() == [*range(1, 21)], bool(99 in source)
        (True, True)
        >>> source, _ = Denoising("rotate")([1, 2, 3, 4, 5])
        >>> np.roll(source, source[-1]).tolist()
        [1, 2, 3, 4, 5]

    References:
        Lewis et al. 2020. Slides D.
    """

    def __init__(
        self,
        kinds: str | Iterable[str] = ("permute", "infill"),
        seed: int = 0,
        *,
        tokenizer: AnyTokenizer | None = None,
        mask_token_id: int | None = None,
        sentence_end_ids: Iterable[int] | None = None,
        rate: float = 0.3,
        mean_length: float = 3.0,
    ) -> None:
        self.kinds: tuple[str, ...] = _checked_kinds(kinds)
        self.seed: int = checks.whole_number("seed", seed, at_least=0)
        self.tokenizer: Tokenizer | None = fitted_tokenizer(tokenizer)
        self.rate: float = checks.fraction("rate", rate)
        if not 0 < self.rate < 1:
            raise ValueError(
                f"rate must lie between 0 and 1, both excluded, received {rate}"
            )
        checks.number("mean_length", mean_length)
        if not 1 <= mean_length <= 1e6:
            raise ValueError(
                f"mean_length must be from 1 to 1e6, received {mean_length}"
            )
        self.mean_length = mean_length
        self.mask_token_id: int | None = self._find_mask(mask_token_id)
        self.sentence_end_ids: list[int] = self._find_ends(sentence_end_ids)

    def _find_mask(self, given: int | None) -> int | None:
        """Returns the id of the mask token; None if no kind needs it."""
        if given is not None:
            lowest = 0 if self.tokenizer else 1  # else 0 is padding
            return checks.whole_number("mask_token_id", given, lowest)
        if not {"mask", "infill"} & set(self.kinds):
            return None
        if self.tokenizer is None:
            raise ValueError(
                f"kinds={self.kinds!r} need a mask token, received tokenizer=None and "
                "mask_token_id=None. Pass a tokenizer with a special token <mask>, or "
                "mask_token_id"
            )
        for token in MASK_TOKENS:
            if token in self.tokenizer.special_tokens:
                return self.tokenizer.id_of(token)
        raise ValueError(
            f"kinds={self.kinds!r} need a mask token, but tokenizer has none: its "
            f"special tokens are {list(self.tokenizer.special_tokens)}. Make it with "
            "special_tokens=['<mask>'], or pass mask_token_id"
        )

    def _find_ends(self, given: Iterable[int] | None) -> list[int]:
        """Returns the ids that end a sentence; none if no kind needs them."""
        if given is not None:
            ids = checks.several("sentence_end_ids", given, "ids")
            name = "an id of sentence_end_ids"
            return sorted({checks.whole_number(name, i, 0) for i in ids})
        if "permute" not in self.kinds:
            return []
        stops = full_stops(self.tokenizer) if self.tokenizer else []
        if not stops:
            raise ValueError(
                'kinds with "permute" need ids that end a sentence, received '
                f"sentence_end_ids=None and {self.tokenizer!r} as tokenizer, without a "
                f'token "{FULL_STOP}". Pass sentence_end_ids'
            )
        return stops

    def __call__(
        self, text: str | np.ndarray | Sequence[int], number: int = 0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Corrupts a text.

        Args:
            text: Ids `(tokens,)`, at least one, none of them the mask token; or a
                string, for the tokenizer.
            number: The number of the text. The noise depends on it and on the seed.

        Returns:
            The source, corrupted, and the target, the ids of the text: arrays of int32.

        Raises:
            TypeError: If it is a string, and there is no tokenizer.
            ValueError: If the text is empty or has a mask token.
        """
        target = self._checked(text)
        draw = np.random.default_rng([self.seed, number])
        source = target
        for kind in self.kinds:
            source = getattr(self, f"_{kind}")(source, draw)
        return source.astype("int32"), target

    def _checked(self, text):
        """Returns the ids of a text."""
        if isinstance(text, str):
            if self.tokenizer is None:
                raise TypeError(
                    f"text must be ids, as there is no tokenizer, received {text!r}"
                )
            text = self.tokenizer.encode(text)
        try:
            ids = np.asarray(text)
        except ValueError:  # rows of unequal length
            raise ValueError(
                f"text must be one row of ids, received {checks.short(text)}"
            ) from None
        if ids.ndim != 1 or not len(ids) or ids.dtype.kind not in "iu":
            raise ValueError(
                "text must be at least one id, integers of shape (tokens,), received "
                f"shape {ids.shape} of {ids.dtype}"
            )
        if self.mask_token_id in ids:
            raise ValueError(
                f"text must not have the mask token, received id {self.mask_token_id} "
                f"at position {np.argmax(ids == self.mask_token_id)}"
            )
        return ids.astype("int32")

    def pairs(
        self, texts: Iterable[str | np.ndarray | Sequence[int]], start: int = 0
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Corrupts many texts once, for `model.fit(*corrupt.pairs(texts))` with ids.

        Args:
            texts: Texts, as for a call.
            start: Number of the first text.

        Returns:
            List of the sources, and list of the targets.
        """
        made = [self(text, start + n) for n, text in enumerate(texts)]
        return [source for source, _ in made], [target for _, target in made]

    def batches(
        self, model: Any, texts: Any, *, batch_size: int = 64, seed: int = 0
    ) -> GroupedBatches:
        """Returns batches for a model, in which each epoch has other noise.

        They are for `model.fit(batches.stream(), steps_per_epoch=…)`, where
        `batches.steps_per_epoch` is a pass over all texts.

        Args:
            model: A `Transformer`, `T5` or `Seq2Seq` with one vocabulary for source and
                target.
            texts: Texts, as the targets of its `fit`.
            batch_size: Texts in a batch.
            seed: Seed of the order.

        Raises:
            TypeError: If the model has no source or target, or a text is of the wrong
                type.
            ValueError: If source and target have different vocabularies, or the mask
                token is not in them.

        Examples:
            >>> from kerasseq.models import Seq2Seq
            >>> sizes = {"source_vocabulary_size": 9, "target_vocabulary_size": 9}
            >>> model = Seq2Seq("gru", **sizes, units=3)
            >>> corrupt = Denoising("mask", mask_token_id=8)
            >>> batches = corrupt.batches(model, [[1, 2, 3], [4, 5]], batch_size=2)
            >>> steps = batches.steps_per_epoch
            >>> history = model.fit(
            ...     batches.stream(), steps_per_epoch=steps, epochs=3, verbose=0)
            >>> len(history.history["loss"])
            3
        """
        return denoising_batches(self, model, texts, batch_size, seed)

    def _count(self, n, draw):
        """Returns the number of tokens to change: `rate * n` on average."""
        return int(self.rate * n + draw.random())

    def _mask(self, ids, draw):
        chosen = draw.choice(len(ids), self._count(len(ids), draw), replace=False)
        masked = ids.copy()
        masked[chosen] = self.mask_token_id
        return masked

    def _delete(self, ids, draw):
        count = min(self._count(len(ids), draw), len(ids) - 1)
        return np.delete(ids, draw.choice(len(ids), count, replace=False))

    def _infill(self, ids, draw):
        n, m = len(ids), self._count(len(ids), draw)
        lengths = span_lengths(m, self.mean_length, draw)
        k = len(lengths)
        # Where the k masks stand among the kept tokens.
        is_mask = np.zeros(n - m + k, bool)
        is_mask[draw.choice(len(is_mask), k, replace=False)] = True
        read = np.ones(len(is_mask), int)  # tokens of the text behind each position
        read[is_mask] = lengths
        starts = np.minimum(np.cumsum(read) - read, n - 1)
        return np.where(is_mask, self.mask_token_id, ids[starts])

    def _permute(self, ids, draw):
        ends = np.flatnonzero(np.isin(ids, self.sentence_end_ids)) + 1
        sentences = [part for part in np.split(ids, ends) if len(part)]
        return np.concatenate([sentences[n] for n in draw.permutation(len(sentences))])

    def _rotate(self, ids, draw):
        return np.roll(ids, -draw.integers(len(ids)))


def _checked_kinds(kinds: str | Iterable[str]) -> tuple[str, ...]:
    kinds = [kinds] if isinstance(kinds, str) else checks.several("kinds", kinds)
    for kind in kinds:
        checks.one_of("kinds", kind, KINDS)
    if not kinds or len(set(kinds)) < len(kinds):
        raise ValueError(
            f"kinds must be at least one of {', '.join(KINDS)}, each once, received "
            f"{kinds}"
        )
    return tuple(kinds)


def full_stops(tokenizer: Tokenizer) -> list[int]:
    """Returns the ids of tokens that are a full stop, also one with a space.

    Examples:
        >>> from kerasseq.text import CharacterTokenizer
        >>> tokenizer = CharacterTokenizer().fit("ab.")
        >>> full_stops(tokenizer) == [tokenizer.id_of(".")]
        True
    """
    return [
        i
        for i, token in enumerate(tokenizer.vocabulary)
        if FULL_STOP in token and tokenizer.decode([i]).strip() == FULL_STOP
    ]


def span_lengths(total: int, mean: float, draw: np.random.Generator) -> list[int]:
    """Draws lengths from a Poisson distribution until they add to `total`.

    Examples:
        >>> sum(span_lengths(50, 3.0, np.random.default_rng(0)))
        50
    """
    lengths, left = [], total
    while left:
        lengths.append(min(int(draw.poisson(mean)), left))
        left -= lengths[-1]
    return lengths
