"""Sentences with homonyms, nouns of two senses that a word before them tells apart.

"the furry mole digs" is about an animal, "the rusty mole clicks" about a thing. A cue
before the noun tells the sense, and the verb after it is one of four of this sense,
which all nouns share. So a language model needs the sense at the noun. In French, where
adjectives follow the noun, the cue is a place: "dans le champ la souris dort". Some
cues of each homonym are held out: training has the cue and the noun, but not together.

`homonym_sentences.toml` has the words.
"""

from typing import NamedTuple

import numpy as np

from kerasseq.core import checks
from kerasseq.core.files import table_beside

LANGUAGES = ("en", "fr")
SENSES = ("animal", "thing")
HELD_OUT = 3  # cues of each homonym and sense
SHARE = 0.75  # of training sentences whose noun is a homonym
MOST_FILLERS = 2  # words without meaning before a sentence


class HomonymSentence(NamedTuple):
    """A sentence with a noun whose sense is known.

    Attributes:
        text: The sentence, words separated by spaces.
        sense: "animal" or "thing".
        cue: The word that tells the sense.
        word: The noun.
        verb: The verb after it.
    """

    text: str
    sense: str
    cue: str
    word: str
    verb: str

    @property
    def position(self) -> int:
        """The index of the noun among the words."""
        return self.text.split().index(self.word)


Pair = tuple[HomonymSentence, HomonymSentence]


class Homonyms:
    """A corpus of homonyms, from which sentences are drawn; see `homonyms`.

    Attributes:
        language: "en" or "fr".
        words: The homonyms.
        cues: The cues of each sense.
        verbs: The verbs of each sense.
        neutral: The most neutral words between noun and verb.
        held_out: Pairs of a homonym and a cue that `sample` does not draw.
    """

    def __init__(self, language: str, neutral: int, seed: int | None) -> None:
        self.language: str = checks.one_of("language", language, LANGUAGES)
        self.neutral: int = checks.whole_number("neutral", neutral, at_least=0)
        checks.fits_memory("neutral", self.neutral, 1000)
        rng = checks.random_generator(seed)
        self._table = table = table_beside(__file__, "homonym_sentences")[language]
        self._nouns = table["homonyms"]
        self.words: list[str] = [_last(noun) for noun in self._nouns]
        self.cues: dict[str, list[str]] = {s: table[s]["cues"] for s in SENSES}
        self.verbs: dict[str, list[str]] = {s: table[s]["verbs"] for s in SENSES}
        self.held_out: set[tuple[str, str]] = {
            (word, str(cue))
            for word in self.words
            for sense in SENSES
            for cue in rng.choice(self.cues[sense], HELD_OUT, replace=False)
        }

    @property
    def vocabulary(self) -> list[str]:
        """All words of the sentences."""
        table = self._table
        frame = [word for word in table["sentence"].split() if "{" not in word]
        nouns = self._nouns + [noun for s in SENSES for noun in table[s]["others"]]
        parts = [word for noun in nouns for word in noun.split()]
        of_senses = [w for s in SENSES for w in self.cues[s] + self.verbs[s]]
        meaningless = [*table["fillers"], *table["neutral"], *frame]
        return list(dict.fromkeys([*meaningless, *parts, *of_senses]))

    def sample(self, count: int, *, seed: int | None = 0) -> list[HomonymSentence]:
        """Draws sentences for training, three quarters of them with homonyms.

        Args:
            count: Number of sentences.
            seed: Random seed.

        Returns:
            A list of `HomonymSentence`, none with a pair that is held out.

        Raises:
            TypeError: If an argument is of the wrong type.
            ValueError: If `count` is negative.

        Examples:
            >>> homonyms().sample(1)[0]
            HomonymSentence(text='the rusty bug rusts .', sense='thing', cue='rusty', \
word='bug', verb='rusts')
        """
        count = checks.whole_number("count", count, at_least=0)
        checks.fits_memory("count", count, 100)
        rng = checks.random_generator(seed)
        return [self._drawn(rng) for _ in range(count)]

    def pairs(
        self,
        count: int,
        *,
        held_out: bool = True,
        neutral: int | None = None,
        seed: int | None = 0,
    ) -> list[Pair]:
        """Draws minimal pairs: a homonym in both senses, with the same words around it.

        The two sentences of a pair differ in the cue, and in the verb. The homonyms
        alternate.

        Args:
            count: Number of pairs.
            held_out: Whether the cues are those that are held out, or those that
                training has with this noun.
            neutral: Number of neutral words between noun and verb; if None, drawn for
                each pair, as in training.
            seed: Random seed.

        Returns:
            Pairs of a sentence with the sense "animal" and one with "thing".

        Raises:
            TypeError: If an argument is of the wrong type.
            ValueError: If `count` is negative.

        Examples:
            >>> animal, thing = homonyms().pairs(1)[0]
            >>> print(animal.text, "|", thing.text)
            today today the wild mole sleeps . | today today the rusty mole rusts .
        """
        count = checks.whole_number("count", count, at_least=0)
        checks.fits_memory("count", count, 200)
        held_out = checks.flag("held_out", held_out)
        if neutral is not None:
            neutral = checks.whole_number("neutral", neutral, at_least=0)
            checks.fits_memory("neutral", neutral, 200 * (count + 1))
        rng, drawn = checks.random_generator(seed), []
        for n in range(count):
            noun, around = self._nouns[n % len(self._nouns)], self._around(rng, neutral)
            drawn.append(
                tuple(self._sentence(rng, around, noun, s, held_out) for s in SENSES)
            )
        return drawn

    def _drawn(self, rng):
        sense = SENSES[rng.integers(2)]
        is_homonym = rng.random() < SHARE
        nouns = self._nouns if is_homonym else self._table[sense]["others"]
        noun = nouns[rng.integers(len(nouns))]
        return self._sentence(rng, self._around(rng), noun, sense, held_out=False)

    def _around(self, rng, neutral=None):
        """Draws words without meaning: before the sentence, and before the verb."""
        fillers, between = self._table["fillers"], self._table["neutral"]
        if neutral is None:
            neutral = rng.integers(self.neutral + 1) if self.neutral else 0
        before = [_one(rng, fillers) for _ in range(rng.integers(MOST_FILLERS + 1))]
        return before, [_one(rng, between) for _ in range(neutral)]

    def _sentence(self, rng, around, noun, sense, held_out):
        """Returns a sentence whose cue is, or is not, held out for this noun."""
        word = _last(noun)
        allowed = [
            cue
            for cue in self.cues[sense]
            if ((word, cue) in self.held_out) == held_out
        ]
        cue, verb = _one(rng, allowed), _one(rng, self.verbs[sense])
        before, between = around
        end = " ".join([*between, verb])
        rest = self._table["sentence"].format(cue=cue, noun=noun, verb=end)
        return HomonymSentence(" ".join([*before, rest]), sense, cue, word, verb)

    def __repr__(self) -> str:
        return f"<Homonyms in {self.language!r}: {', '.join(self.words)}>"


def homonyms(
    language: str = "en", *, neutral: int = 0, seed: int | None = 0
) -> Homonyms:
    """Returns a corpus of nouns with two senses, which the words before tell apart.

    A sentence has up to two words without meaning, a cue, the noun and a verb: "well
    the furry mole sleeps .", or "hier dans le champ la souris dort .". There are 8
    homonyms, 4 other nouns a sense, and 10 cues and 4 verbs a sense; 3 of the cues of
    each homonym and sense are held out.

    Args:
        language: "en" or "fr".
        neutral: The most words without meaning between noun and verb, as in "the furry
            mole still often sleeps .".
        seed: Random seed of which cues are held out.

    Returns:
        A `Homonyms`.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If the language is another one, or `neutral` is negative.

    Examples:
        >>> corpus = homonyms()
        >>> corpus.words
        ['mole', 'bat', 'crane', 'mouse', 'seal', 'bug', 'ray', 'jaguar']
        >>> len(corpus.held_out), len(corpus.vocabulary)
        (48, 53)
    """
    return Homonyms(language, neutral, seed)


def _last(noun: str) -> str:
    """Returns a noun without its article.

    Examples:
        >>> _last("la souris"), _last("mole")
        ('souris', 'mole')
    """
    return noun.split()[-1]


def _one(rng: np.random.Generator, words: list[str]) -> str:
    return words[rng.integers(len(words))]
