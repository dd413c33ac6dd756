r"""Shannon's series of approximations to a language, from any text.

Section 3 of "A Mathematical Theory of Communication", 1948, writes English of growing
order: symbols independent and equally probable (zero), independent with the frequencies
of the text (first), then each after the one before it (second), after the two before it
(third); and the first and second order once more with words. Order $n$ is the n-gram
model with relative counts,

$$
p(u \mid c) = N(c\,u) / N(c)
$$

Shannon had no computer: he opened a book, read a letter, opened it elsewhere, read on
until that letter came, and took the one after it.
"""

import numpy as np

from kerasseq.core.checks import several, whole_number
from kerasseq.text.character_tokenizer import CharacterTokenizer
from kerasseq.text.ngram import NGramModel
from kerasseq.text.texts import check_text
from kerasseq.text.with_tokenizer import check_tokenizer, has_learned


def shannon_series(
    text: str, tokenizer=None, *, orders=(0, 1, 2, 3), length: int = 80, seed=None
) -> dict[int, str]:
    """Write a text of each order.

    Args:
        text: The text to count in. Shannon's alphabet had 27 symbols, the letters and
            the blank: `re.sub("[^A-Z]+", " ", text.upper())`.
        tokenizer: Says what a symbol is; characters if None. One that has no
            vocabulary yet learns it from the text.
        orders: Which to write; 0 and up.
        length: How many tokens each has.
        seed: Seed of the random choices; each order makes its own, whichever the
            others are.

    Returns:
        The texts by order.

    Raises:
        TypeError: If `text` is no string or `tokenizer` no tokenizer.
        ValueError: If an order is negative, or the text shorter than one.

    Examples:
        >>> series = shannon_series("ab" * 9, orders=(1, 2), length=8, seed=1)
        >>> series[1], series[2]
        ('abbabaaa', 'abababab')
    """
    check_text(text)
    check_tokenizer(tokenizer)
    orders = several("orders", orders, "numbers")
    orders = [whole_number("an order", order, at_least=0) for order in orders]
    tokenizer = CharacterTokenizer(unknown=None) if tokenizer is None else tokenizer
    if not has_learned(tokenizer):
        tokenizer.fit(text)
    ids = tokenizer.encode(text)
    if len(ids) < max(orders, default=0):
        raise ValueError(
            f"`text` has {len(ids)} tokens, fewer than order {max(orders)} looks at: "
            "pass a longer one, or leave this order out."
        )
    return {
        # With one and the same seed all orders would make the same choices.
        order: _write(
            ids, tokenizer, order, length, None if seed is None else [seed, order]
        )
        for order in orders
    }


def _write(ids: np.ndarray, tokenizer, n: int, length: int, seed) -> str:
    if n == 0:
        n, ids = 1, np.unique(ids)  # each symbol of the text once
    model = NGramModel(n, k=0, tokenizer=tokenizer)
    # Closed to a circle, the text has no end after which nothing is known.
    return model.fit(np.concatenate([ids, ids[: n - 1]])).generate(
        "", length, seed=seed
    )
