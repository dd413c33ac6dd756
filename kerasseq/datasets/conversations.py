"""Facts, told in sentences and asked about in conversations.

A language model that has read the sentences knows the facts: it completes them. Asked a
question, it goes on with something else, as it has never seen a question. After
conversations about some of the facts it answers questions about the others, too.
"""

import pathlib
from typing import Any, NamedTuple

import numpy as np

from kerasseq.core.checks import (
    fraction,
    one_of,
    random_generator,
    whole_number,
)

TABLE = pathlib.Path(__file__).with_name("conversations.toml")
LANGUAGES = ("en", "fr")
Message = dict[str, str]  # "role" and "content"


class Conversations(NamedTuple):
    """Facts, a row each.

    Attributes:
        kinds: "sum", "next", "mother" or "town".
        sentences: For each fact its sentences, which all end with the answer.
        questions: For each fact its questions.
        answers: The answers, a word or a number each.
        full_answers: The answers in a sentence each: "The answer is 7."
    """

    kinds: list[str]
    sentences: list[list[str]]
    questions: list[list[str]]
    answers: list[str]
    full_answers: list[str]

    def text(self, count: int, *, seed: int | None = 0) -> str:
        """Returns sentences about random facts, to train a language model on.

        Args:
            count: Number of sentences.
            seed: Random seed.

        Raises:
            ValueError: If `count` is below 1.
        """
        rng = random_generator(seed)
        facts = rng.integers(len(self.answers), size=whole_number("count", count))
        return " ".join(
            self.sentences[fact][rng.integers(len(self.sentences[fact]))]
            for fact in facts.tolist()
        )

    def beginnings(self) -> list[str]:
        """Returns the first sentence of each fact, without its last word."""
        ends = [len(answer) + 1 for answer in self.answers]  # and the period
        return [
            sentences[0][:-end].rstrip()
            for sentences, end in zip(self.sentences, ends, strict=True)
        ]

    def messages(
        self,
        count: int | None = None,
        *,
        max_questions: int = 1,
        full_answers: float = 0.0,
        seed: int | None = 0,
    ) -> list[list[Message]]:
        """Returns conversations with right answers, to train a chat on.

        Args:
            count: Number of conversations about random facts. Each question is asked
                once, in a conversation of its own, if None.
            max_questions: The most questions of a conversation.
            full_answers: The share of the answers that are sentences; others are one
                word or number.
            seed: Random seed.

        Raises:
            ValueError: If a number is out of range, or `max_questions` is given without
                `count`.

        Examples:
            >>> facts = conversations()
            >>> facts.messages()[0][0]
            {'role': 'user', 'content': 'What is 0 plus 0?'}
        """
        most = whole_number("max_questions", max_questions)
        share = fraction("full_answers", full_answers)
        rng = random_generator(seed)
        if count is None:
            if most > 1:
                raise ValueError(
                    "count must be given with several questions in a conversation, "
                    f"received max_questions={most} without it"
                )
            rows = [
                (fact, question)
                for fact, questions in enumerate(self.questions)
                for question in questions
            ]
            return [self._asked(fact, question, share, rng) for fact, question in rows]
        talks = []
        for _ in range(whole_number("count", count)):
            facts = rng.integers(len(self.answers), size=rng.integers(1, most + 1))
            talks.append([])
            for fact in facts.tolist():
                question = rng.choice(self.questions[fact])
                talks[-1] += self._asked(fact, str(question), share, rng)
        return talks

    def _asked(self, fact, question, share, rng):
        """Returns a question and its answer, as messages."""
        answers = self.full_answers if rng.random() < share else self.answers
        return [
            {"role": "user", "content": question},
            {"role": "assistant", "content": answers[fact]},
        ]

    def split(
        self, share: float = 0.5, *, seed: int | None = 0
    ) -> tuple["Conversations", "Conversations"]:
        """Splits the facts at random in two.

        Args:
            share: The share of the first part.
            seed: Random seed.

        Raises:
            ValueError: If a part would be empty.

        Examples:
            >>> asked, others = conversations().split()
            >>> len(asked.answers), len(others.answers)
            (106, 105)
        """
        share = fraction("share", share)
        order = random_generator(seed).permutation(len(self.answers))
        count = round(share * len(order))
        if not 0 < count < len(order):
            raise ValueError(
                f"share must leave facts in both parts, received {share} of "
                f"{len(order)} facts"
            )
        return self._rows(np.sort(order[:count])), self._rows(np.sort(order[count:]))

    def _rows(self, rows):
        return Conversations(*([column[row] for row in rows] for column in self))


def conversations(
    language: str = "en", *, highest: int = 11, seed: int | None = 0
) -> Conversations:
    """Returns facts: sums, what comes next, and relations between persons and towns.

    There are 211: the sums of two numbers, which day or month comes next, and for 24
    persons their mothers and where they live, which are drawn at random.

    Args:
        language: "en" or "fr".
        highest: The highest number that is added.
        seed: Random seed of mothers and towns.

    Returns:
        The facts, as `Conversations`.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If the language is another one.

    Examples:
        >>> facts = conversations("fr")
        >>> facts.sentences[17][0], facts.questions[17][0], facts.answers[17]
        ('1 plus 5 font 6.', 'Combien font 1 plus 5 ?', '6')
    """
    import tomllib  # slow import, not needed by the other data sets

    one_of("language", language, LANGUAGES)
    highest = whole_number("highest", highest, at_least=0)
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    words, names = table[language], table["names"]
    rng = random_generator(seed)
    numbers = range(highest + 1)
    facts = [("sum", (str(a), str(b)), str(a + b)) for a in numbers for b in numbers]
    for order in words["orders"]:
        nexts = [*order[1:], order[0]]
        facts += [("next", (x,), y) for x, y in zip(order, nexts, strict=True)]
    for name in names:
        others = [other for other in names if other != name]
        facts.append(("mother", (name,), others[rng.integers(len(others))]))
    for name in names:
        towns = table["towns"]
        facts.append(("town", (name,), towns[rng.integers(len(towns))]))
    return Conversations(*map(list, zip(*_told(facts, words), strict=True)))


def _told(facts, words) -> Any:
    """Yields what `Conversations` has of each fact."""
    for kind, about, answer in facts:
        forms = words[kind]
        sentences = [form.format(*about, answer=answer) for form in forms["sentences"]]
        questions = [form.format(*about) for form in forms["questions"]]
        full_answer = words["full_answer"].format(answer=answer)
        yield kind, sentences, questions, answer, full_answer
