r"""Shannon's series of approximations to a language.

Section 3 of "A Mathematical Theory of Communication", 1948, generates English of
increasing order: symbols independent and equally probable (zero), independent with the
frequencies of the text (first), conditioned on one previous symbol (second), on two
(third); and first and second order with words. Order $n$ is the n-gram model with
relative frequencies,

$$
p(u \mid c) = N(c\,u) / N(c)
$$

Shannon had no computer: he opened a book, read a letter, opened it elsewhere, read on
until that letter came, and took the one after it.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from kerasseq.core.checks import several, whole_number
from kerasseq.text.classical.ngram import NGramModel
from kerasseq.text.texts import check_text
from kerasseq.text.tokenizers.character_tokenizer import CharacterTokenizer
from kerasseq.text.tokenizers.conversion import TextTokenizer, as_tokenizer
from kerasseq.text.tokenizers.with_tokenizer import has_learned


def shannon_series(
    text: str,
    tokenizer: TextTokenizer | None = None,
    *,
    orders: Iterable[int] = (0, 1, 2, 3),
    length: int = 80,
    seed: int | None = None,
) -> dict[int, str]:
    """Generates a text of each order.

    Args:
        text: The training text. Shannon's alphabet had 27 symbols, the letters and the
            space: `re.sub("[^A-Z]+", " ", text.upper())`.
        tokenizer: A tokenizer, which is fitted if it has no vocabulary. Defaults to
            characters.
        orders: The orders, 0 and up.
        length: Number of tokens of each text.
        seed: Random seed. The text of an order does not depend on the other orders.

    Returns:
        The texts by order.

    Raises:
        TypeError: If `text` is not a string, or `tokenizer` not a tokenizer.
        ValueError: If an order is negative, or larger than the number of tokens.

    Examples:
        >>> series = shannon_series("ab" * 9, orders=(1, 2), length=8, seed=1)
        >>> series[1], series[2]
        ('abbabaaa', 'abababab')
    """
    check_text(text)
    tokenizer = as_tokenizer(tokenizer)
    orders = several("orders", orders, "numbers")
    orders = [whole_number("an order", order, at_least=0) for order in orders]
    tokenizer = CharacterTokenizer(unknown=None) if tokenizer is None else tokenizer
    if not has_learned(tokenizer):
        tokenizer.fit(text)
    ids = tokenizer.encode(text)
    if len(ids) < max(orders, default=0):
        raise ValueError(
            f"`text` must have at least {max(orders)} tokens for order {max(orders)}, "
            f"received {len(ids)}. Pass a longer text, or leave this order out."
        )
    return {
        # A separate seed for each order.
        order: _write(
            ids, tokenizer, order, length, None if seed is None else [seed, order]
        )
        for order in orders
    }


def _write(
    ids: Sequence[int] | np.ndarray,
    tokenizer: TextTokenizer,
    n: int,
    length: int,
    seed: list[int] | None,
) -> str:
    if n == 0:
        n, ids = 1, np.unique(ids)  # each symbol of the text once
    model = NGramModel(n, k=0, tokenizer=tokenizer)
    # The text is closed to a circle, so that every context has a continuation.
    return model.fit(np.concatenate([ids, ids[: n - 1]])).generate(
        "", length, seed=seed
    )
