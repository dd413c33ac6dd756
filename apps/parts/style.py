"""Colors, sizes and themes: one palette for every figure."""

import dataclasses

import streamlit as st

from kerasseq.core.palette import DARK, INK, LIGHT, PAPER

CELLS = (  # each kind of network has the same color on every page
    "lstm",
    "elman",
    "gru",
    "peephole_lstm",
    "gated",
    "transformer",
    "baseline",
    "min_gru",
    "min_lstm",
)
SEQUENTIAL = "viridis"
DIVERGING = "blueorange"
PROJECTOR = 1.35  # how much larger everything is


@dataclasses.dataclass(frozen=True)
class Style:
    """How figures are drawn.

    Attributes:
        dark: Whether the page is dark.
        projector: Whether everything is enlarged.
        language: "en" or "fr".
    """

    dark: bool = False
    projector: bool = False
    language: str = "en"

    @property
    def palette(self) -> tuple[str, ...]:
        """The colors of categories."""
        return DARK if self.dark else LIGHT

    @property
    def ink(self) -> str:
        """The color of text in figures."""
        return INK[self.dark]

    @property
    def paper(self) -> str:
        """The color of the page."""
        return PAPER[self.dark]

    @property
    def font_size(self) -> int:
        """The size of text in figures, in pixels."""
        return round(15 * (PROJECTOR if self.projector else 1))

    def is_cell(self, name: str) -> bool:
        """Whether a name is that of a network with a color of its own, as "lstm#2"."""
        return name.partition("#")[0] in CELLS

    def color(self, name: str) -> str:
        """Returns the color of a kind of network, or of any other name.

        Examples:
            >>> Style().color("lstm") == Style().palette[0]
            True
        """
        if self.is_cell(name):
            return self.palette[CELLS.index(name.partition("#")[0])]
        return self.palette[sum(name.encode()) % len(self.palette)]


def current(language: str, projector: bool) -> Style:
    """Returns the style of the page that is drawn."""
    return Style(st.context.theme.type == "dark", projector, language)


def apply(style: Style) -> None:
    """Writes the style sheet of the page: large type, and larger for a projector."""
    size = 17 * (PROJECTOR if style.projector else 1)
    st.html(
        f"""<style>
        html {{ font-size: {size:.1f}px; }}
        .block-container {{ padding-top: 3.2rem; max-width: 78rem; }}
        .stMarkdown p, .stMarkdown li {{ line-height: 1.5; }}
        [data-testid="stLatex"] .katex-display, .stMarkdown .katex-display
          {{ overflow-x: auto; overflow-y: hidden; padding: .2rem 0; }}
        /* It would blink with each picture of a run that trains. */
        [data-testid="stStatusWidget"] {{ visibility: hidden; }}
        @media (max-width: 640px) {{
          .block-container {{ padding-left: 1rem; padding-right: 1rem; }}
          h1 {{ font-size: 1.7rem !important; }}
        }}
        </style>"""
    )
