"""What all Transformers that translate share: the graph, decoding, and two passes."""

import functools

import keras
from keras import ops, tree

from kerasseq import kernels
from kerasseq.core.padding import PADDING, bucket
from kerasseq.core.through import Through
from kerasseq.seq2seq.feeding import Feeding
from kerasseq.seq2seq.translator import Translator


class EncoderDecoder(Translator):
    """A model of two stacks; a subclass makes these from its arguments.

    Args:
        sides: The `Side`s of source and target.
        encoder: The `Encoder`.
        decoder: The `Decoder`.
        arguments: What the model is saved as.
        scheduled_sampling: A `training.ScheduledSampling`, or None.
        **kwargs: `name` and `trainable`.
    """

    def __init__(
        self, sides, encoder, decoder, arguments, scheduled_sampling=None, **kwargs
    ):
        source = keras.Input((None,), dtype="int32", name="source")
        target = keras.Input((None,), dtype="int32", name="target")
        memory, real = encoder(source)
        logits = decoder(target, memory, real)
        super().__init__([source, target], logits, arguments, **kwargs)
        self.source_side, self.target_side = sides
        self.encoder, self.decoder = encoder, decoder
        self.feeding = Feeding(scheduled_sampling, name="feeding")
        self.feeding.build()

    def call(self, inputs, training=None, mask=None):
        if not training or self.feeding.schedule is None:
            return super().call(inputs, training=training, mask=mask)
        source, target = tree.flatten(inputs)
        memory, real = self.encoder(source, training=True)
        target = self.mixed(target, self.decoder(target, memory, real, training=False))
        return self.decoder(target, memory, real, training=True)

    def mixed(self, target, logits):
        """The target, in which some tokens are what the first pass said for them.

        Args:
            target: Ids `(B, T)`, with the start first.
            logits: `(B, T, V)`, of a pass that has read them.

        Returns:
            Ids `(B, T)`. Start and padding are never replaced.
        """
        decided = self.feeding.decide(target, logits.shape[-1])
        said = self.feeding.say(logits, decided.get("noise"))
        said = ops.cast(said, target.dtype)
        said = ops.concatenate([target[:, :1], said[:, :-1]], axis=1)  # one behind
        keep = ops.logical_or(decided["true"], ops.equal(target, PADDING))
        return ops.where(keep, target, said)

    @functools.cached_property
    def alignment_model(self):
        """From sources and targets to alignments: the mean of the last layer's heads.

        Each head by itself, of each layer, is what `tracing.trace` shows.
        """
        source, target = self.inputs
        return keras.Model(
            self.inputs, self.decoder.align(target, *self.encoder(source))
        )

    @property
    def longest(self):
        """The most tokens of a target; None if positions do not end."""
        return self.decoder.longest

    def max_target_length(self, source):
        return min(super().max_target_length(source), self.longest or float("inf"))

    def initial_state(self, source, length):
        if length > (self.longest or float("inf")):
            raise ValueError(
                f"max_length={length}, but this model has positions for {self.longest} "
                "tokens: ask for fewer, or build it with another max_sequence_length"
            )
        return self._begin(bucket(length))(ops.convert_to_tensor(source))

    def _begin(self, length):
        """The compiled `begin`, for caches of a length."""
        programs = kernels.programs(self)

        def make():
            begin = functools.partial(Through(self, "begin"), length=length)
            return kernels.compiled(begin, pure=programs.pure)

        return programs.get("begin", length, make)

    def begin(self, source, length):
        """The state before the first of so many tokens, from ids `(B, S)`."""
        return self.decoder.begin(*self.encoder(source, training=False), length)

    @functools.cached_property
    def step(self):
        """The step function of decoding: `(state, token) -> (logits, state)`."""
        return Through(self, "say")

    def say(self, state, token):
        """Logits after one more token of each row, and the state after it."""
        return self.decoder.step(state, token)
