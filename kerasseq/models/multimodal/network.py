"""The layers of a `Multimodal`: tokens of each kind, one encoder, one head."""

from typing import Any

import keras
from keras import ops

from kerasseq.core import masks
from kerasseq.core.dense import Dense
from kerasseq.core.serialization import scores_dtype
from kerasseq.core.types import Config, Tensor
from kerasseq.models.multimodal.contrast import PairScores
from kerasseq.models.multimodal.kinds import (
    AUDIO,
    CODES,
    IMAGES,
    TEXTS,
    Codes,
    Pictures,
    Sounds,
    Words,
)
from kerasseq.models.multimodal.preprocessor import MultimodalPreprocessor
from kerasseq.models.multimodal.sequence import JoinKinds, SplitKinds
from kerasseq.models.multimodal.stack import Stack
from kerasseq.tasks.sequence_layers import SequencePooling


class Network:
    """The layers, and the ways through them.

    Args:
        arguments: The arguments of the model.
        preprocessor: That of the model, which knows kinds and ids.

    Attributes:
        fronts: For each kind what makes its tokens; one that is written is the last.
        stack: The encoder.
    """

    def __init__(self, arguments: Config, preprocessor: MultimodalPreprocessor) -> None:
        a, own = arguments, preprocessor
        contrastive = a["head"] == "contrastive"
        self.fronts: dict[str, Any] = {}
        if IMAGES in own.kinds and own.codebook is None:
            self.fronts[IMAGES] = Pictures(a)
        if AUDIO in own.kinds:
            frames = -(-(own.samples // a["stride"]) // a["factor"])
            self.fronts[AUDIO] = Sounds(a, frames)
        # A text has a start, and an end where it is not written but read as a whole.
        positions = own.longest + 1 + (a["head"] != "caption")
        self.fronts[TEXTS] = Words(a, own.end + 1, positions)
        if own.codebook is not None:
            ids = own.codebook.num_codes + 1  # with the start
            self.fronts[CODES] = Codes(a, ids, own.num_codes)
        view = "apart" if contrastive else "prefix"
        self.join: JoinKinds = JoinKinds(view, name="join")
        self.split: SplitKinds = SplitKinds(name="split")
        self.stack: Stack = Stack(a)
        if contrastive:
            D, wide = a["hidden_dim"], scores_dtype()
            self.pool: SequencePooling = SequencePooling("mean", name="pooling")
            self.projections: dict[str, Dense] = {
                kind: Dense(D, use_bias=False, name=f"{kind}_projection")
                for kind in own.kinds
            }
            self.unit: keras.Layer = keras.layers.UnitNormalization(
                dtype=wide, name="unit"
            )
            self.scores: PairScores = PairScores(a["loss"], dtype=wide, name="scores")

    def inputs(self, *kinds: str) -> dict[str, keras.KerasTensor]:
        """Returns symbolic inputs by name, of some kinds or of all."""
        symbolic = {}
        for kind in kinds or self.fronts:
            symbolic.update(self.fronts[kind].inputs())
        return symbolic

    def pair_scores(self, inputs: dict[str, Tensor]) -> Tensor:
        """Returns the scores `(B, P, B)` of all pairs of rows."""
        tokens, real = self._tokens(inputs, *self.fronts)
        x, all_real, attend = self.join(tokens, real)
        parts = self.split(self.stack(x, all_real, attend), real)
        each = zip(self.fronts, parts, real, strict=True)
        return self.scores([self._unit_vector(*one) for one in each])

    def vector(self, kind: str, inputs: dict[str, Tensor]) -> Tensor:
        """Returns the unit vectors `(B, D)` of one kind."""
        (x,), (real,) = self._tokens(inputs, kind)
        h = self.stack(x, None if kind == IMAGES else real)
        return self._unit_vector(kind, h, real)

    def _unit_vector(self, kind, h, real):
        pooled = self.pool(h, mask=real)
        return self.unit(self.projections[kind](pooled))

    def next_tokens(self, inputs: dict[str, Tensor]) -> Tensor:
        """Returns the logits `(B, T, V)` of the token after each that is written."""
        tokens, real = self._tokens(inputs, *self.fronts)
        x, all_real, attend = self.join(tokens, real)
        *_, h = self.split(self.stack(x, all_real, attend), real)
        return self.written.logits(h)

    @property
    def written(self) -> Words:
        """The words, or the tokens of pictures, that are written."""
        return [*self.fronts.values()][-1]

    @property
    def read(self) -> list[str]:
        """The inputs that are read before the first token is written."""
        *fronts, _ = self.fronts.values()
        return [name for front in fronts for name in front.names]

    def _tokens(self, inputs, *kinds):
        """Tokens of some kinds, and which of them are real."""
        tokens, real = zip(*(self.fronts[kind](inputs) for kind in kinds), strict=True)
        return list(tokens), list(real)

    def start(self, inputs: dict[str, Tensor], length: int) -> dict[str, Any]:
        """Returns the state before the first of at most `length` tokens.

        Args:
            inputs: What is read before them, by name.
            length: The most tokens that are written.
        """
        *kinds, _ = self.fronts
        tokens, real = self._tokens(inputs, *kinds)
        x = ops.concatenate(tokens, axis=1)  # (B, P, D)
        real = ops.concatenate(real, axis=1)
        B, P = ops.shape(real)
        later = ops.ones((B, length), "bool")
        keys = ops.concatenate([real, ops.logical_not(later)], axis=1)  # (B, S)
        attend = ops.broadcast_to(keys[:, None], (B, P, P + length))
        x = masks.zero_masked(x, real)
        caches = self.stack.caches(B, P + length)
        _, caches = self.stack.advance(x, caches, 0, attend)
        return {
            "index": ops.zeros((B,), "int32"),
            "prefix": ops.full((B,), P, "int32"),
            "real": ops.concatenate([real, later], axis=1),
            "caches": caches,
        }

    def step(
        self, state: dict[str, Any], token: Tensor
    ) -> tuple[Tensor, dict[str, Any]]:
        """Returns logits `(B, V)` of the id after `token` `(B,)`, and the state."""
        index = state["index"][0]  # the same in all rows
        place = state["prefix"][0] + index
        at = ops.arange(state["real"].shape[1], dtype="int32")
        attend = ops.logical_and(state["real"], (at <= place)[None])[:, None]
        x = self.written.at(token, index)
        h, caches = self.stack.advance(x, state["caches"], place, attend)
        after = {**state, "index": state["index"] + 1, "caches": caches}
        return self.written.logits(h)[:, 0], after
