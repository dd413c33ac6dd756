"""The exercises whose answers kerasseq checks, as a cell of each tutorial."""

import re

from docs.tools.words import WORDS
from kerasseq import exercises

NAME, BEFORE = "checks", "summary"  # of the cell, and of the one that follows it


def has_checks(tutorial: str) -> bool:
    """Whether kerasseq has exercises of a tutorial.

    Examples:
        >>> has_checks("04_gates"), has_checks("99_gates")
        (True, False)
    """
    return f"{tutorial[:2]}.1" in exercises.numbers()


def text(tutorial: str, language: str) -> str:
    """Returns the cell with the questions of a tutorial.

    Examples:
        >>> print(text("12_vit", "en").splitlines()[-1].partition(" The ")[0])
        - **`12.3`** `attention_rollout(A)`:
    """
    numbers = [n for n in exercises.numbers() if n.startswith(f"{tutorial[:2]}.")]
    asked = [exercises.question(n, language=language) for n in numbers]
    lines = [f"- **`{n}`** {one}" for n, one in zip(numbers, asked, strict=True)]
    return WORDS[language][NAME].format(
        number=numbers[0],
        name=re.match(r"`(\w+)", asked[0])[1],
        questions="\n".join(lines),
    )
