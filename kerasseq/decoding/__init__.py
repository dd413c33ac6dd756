"""From logits to the next token."""

from kerasseq.decoding.sampling import sample

__all__ = ["sample"]
