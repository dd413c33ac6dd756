"""Metrics, the order of the data, and checkpoints that a killed run goes on from."""

from kerasseq.training.batches import ArrayBatches, TextBatches
from kerasseq.training.checkpoint import Checkpoint, restore
from kerasseq.training.metrics import BitsPerCharacter, Perplexity

__all__ = [
    "ArrayBatches",
    "BitsPerCharacter",
    "Checkpoint",
    "Perplexity",
    "TextBatches",
    "restore",
]
