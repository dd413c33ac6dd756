"""Lab 1, Start: a question, a picture that moves, and the way into the course."""

from parts import lab


def body(here):
    """Draws the page."""


if __name__ == "__main__":
    lab.show("start", body)
