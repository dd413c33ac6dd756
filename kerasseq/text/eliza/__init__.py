"""ELIZA, the first chatbot: patterns, ranks, reflection and a memory."""

from kerasseq.text.eliza.engine import Eliza

__all__ = ["Eliza"]
