"""ELIZA, the first chatbot: patterns, ranks, reflection and a memory."""

from kerasseq.text.classical.eliza.engine import Eliza

__all__ = ["Eliza"]
