"""What `check` found out about an answer."""

import dataclasses


@dataclasses.dataclass(frozen=True, repr=False)
class Verdict:
    """Whether an answer is right, and why not.

    A verdict is true if the answer is right, and shows as its message in a notebook.

    Attributes:
        number: The exercise, such as "01.2".
        is_right: Whether the answer was right for all draws of the inputs.
        message: A sentence or two, with the hint that fits the mistake.

    Examples:
        >>> from kerasseq import exercises
        >>> verdict = exercises.check("12.1", lambda size, patch: (size // patch) ** 2)
        >>> bool(verdict), verdict
        (False, Not yet. The class token is missing.)
    """

    number: str
    is_right: bool
    message: str

    def __bool__(self) -> bool:
        return self.is_right

    def __repr__(self) -> str:
        return self.message
