"""Whisper: sounds to texts, in many languages."""

import functools
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq import kernels
from kerasseq.core import checks
from kerasseq.core.padding import bucket
from kerasseq.core.serialization import register
from kerasseq.core.types import Config, Tensor, method_of
from kerasseq.models.arguments import check_memory, checked_arguments
from kerasseq.models.seq2seq.cached_decoding import check_positions, compiled_method
from kerasseq.models.seq2seq.target_step import TargetStep
from kerasseq.models.seq2seq.transformer_base import Decoder, LayerOptions
from kerasseq.models.whisper import transcribing
from kerasseq.models.whisper.encoder import AudioEncoder
from kerasseq.models.whisper.head import TranscriptHead
from kerasseq.models.whisper.inputs import WhisperPreprocessor
from kerasseq.models.whisper.settings import TRANSCRIBE, WhisperGeneration
from kerasseq.tasks.base import BATCH_SIZE, TaskModel
from kerasseq.tasks.labeled_data import learned_rows
from kerasseq.tasks.labeled_model import LabeledModel
from kerasseq.text.tokenizers.conversion import AnyTokenizer
from kerasseq.tracing.listeners import pause

FEATURES = ("num_mels", "num_fft_bins", "stride", "sampling_rate")


@register
class Whisper(LabeledModel):
    r"""Transcribes sounds: a Transformer reads a window of sound and writes its text.

    $$
    \begin{aligned}
    E &= \mathrm{Encoder}(\mathrm{Conv}(\mathrm{Conv}(\mathrm{LogMel}(x))) + P) \\
    p(w_t \mid w_{<t}, x) &= \mathrm{softmax}(D_t W^T), \qquad
    D = \mathrm{Decoder}(W_{w_{<t}} + Q, E)
    \end{aligned}
    $$

    with fixed sinusoids $P$, learned positions $Q$, and the embedding $W$, which gives
    the logits as well. Blocks have their norms before each sublayer. Queries, values
    and outputs of attention have biases, keys have none.

    Sounds are arrays `(samples,)` of floats from -1 to 1 at `sampling_rate`, WAV files,
    or rows of the package datasets with "array" and "sampling_rate". Each is padded
    with zeros to `window` seconds; `fit`, `evaluate` and `predict` take no longer ones.
    Transcripts are texts, or rows of ids for a model without a tokenizer. In training
    the decoder reads the ids of start, language and task and the transcript, and
    predicts the transcript and its end; padding does not count.

    Args:
        tokenizer: A fitted tokenizer, or the name of one that `fit` trains on the
            transcripts, such as "character".
        vocabulary_size: Number of ids, for a model without a tokenizer.
        num_layers: Number of blocks of the encoder.
        num_decoder_layers: Number of blocks of the decoder; `num_layers` if None.
        num_heads: N, heads of each attention.
        hidden_dim: D, the width, even.
        intermediate_dim: Width of the feed-forward networks; 4 D if None.
        num_mels: As for `LogMelSpectrogram`.
        window: Seconds that are read at once.
        max_length: The most ids that the decoder reads.
        dropout: Dropout rate.
        sampling_rate: Samples a second. Files of other rates are resampled.
        num_fft_bins: As for `LogMelSpectrogram`.
        stride: As for `LogMelSpectrogram`.
        generation: A `WhisperGeneration` with the special ids, which are ids of the
            tokenizer. If None, start and end are the only ones: they follow those of
            the tokenizer, or are the last two of `vocabulary_size`.
        language: Language of the transcripts to train on, if `generation` has any.
        task: Their task, "transcribe" or "translate".
        **kwargs: `name` and `trainable`.

    Call arguments:
        inputs: A dictionary with "audio" `(B, samples)`, "lengths" `(B,)`, the samples
            of each sound, and "target", ids `(B, T)`; see `encode`.

    Returns:
        Logits `(B, T, V)` of the id after each in "target".

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument is out of range, `num_heads` does not divide
            `hidden_dim`, or both or neither of `tokenizer` and `vocabulary_size` are
            given.

    Examples:
        >>> sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "num_mels": 7}
        >>> sizes |= {"sampling_rate": 800, "num_fft_bins": 32, "stride": 8}
        >>> model = Whisper("character", window=1.5, **sizes)
        >>> sound = np.sin(np.arange(1000))
        >>> history = model.fit([sound, sound[:500]], ["hello", "so"], verbose=0)
        >>> model.predict(model.encode([sound], ["so"]), verbose=0).shape  # 2 specials
        (1, 3, 8)

    References:
        Radford et al., "Robust Speech Recognition via Large-Scale Weak Supervision",
        2022. Slides A.
    """

    task: TranscriptHead
    preprocessor: WhisperPreprocessor

    @checked_arguments(
        tokenizer=None,
        vocabulary_size=checks.size,
        max_length=functools.partial(checks.whole_number, at_least=2),
    )
    def __init__(
        self,
        tokenizer: AnyTokenizer | str | None = None,
        *,
        vocabulary_size: int | None = None,
        num_layers: int = 4,
        num_decoder_layers: int | None = None,
        num_heads: int = 6,
        hidden_dim: int = 384,
        intermediate_dim: int | None = None,
        num_mels: int = 80,
        window: float = 30.0,
        max_length: int = 448,
        dropout: float = 0.0,
        sampling_rate: int = 16_000,
        num_fft_bins: int = 400,
        stride: int = 160,
        generation: WhisperGeneration | None = None,
        language: str | None = None,
        task: str = TRANSCRIBE,
        **kwargs: Any,
    ) -> None:
        if hidden_dim % 2 or hidden_dim < 4:
            raise ValueError(
                "hidden_dim must be even and at least 4, for sines and cosines of the "
                f"positions, received {hidden_dim}"
            )
        arguments = self._arguments
        check_memory(arguments)
        preprocessor = WhisperPreprocessor(arguments)
        if not preprocessor.is_waiting:
            self.build_layers(arguments, kwargs)
            return
        self.await_fit(arguments, kwargs)
        self.preprocessor, self.task = preprocessor, TranscriptHead(preprocessor)

    def build_layers(self, arguments: Config, options: dict[str, Any]) -> None:
        self.preprocessor = WhisperPreprocessor(arguments)
        self.task = TranscriptHead(self.preprocessor)
        a, D = arguments, arguments["hidden_dim"]
        self.preprocessor.generation.check_model(
            self.preprocessor.vocabulary_size,
            a["num_decoder_layers"] or a["num_layers"],
            a["num_heads"],
        )
        own = layer_options(a)
        features = {name: a[name] for name in FEATURES}
        encoder = AudioEncoder(self.preprocessor.samples, features, D, own)
        embedding = keras.layers.ReversibleEmbedding(
            self.preprocessor.vocabulary_size,
            D,
            embeddings_initializer=keras.initializers.RandomNormal(stddev=0.02),
            name="embedding",
        )
        decoder = Decoder(embedding, own)
        inputs = {
            "audio": keras.Input((None,), dtype="float32", name="audio"),
            "lengths": keras.Input((), dtype="int32", name="lengths"),
            "target": keras.Input((None,), dtype="int32", name="target"),
        }
        sounds = {name: inputs[name] for name in ("audio", "lengths")}
        h = decoder.hidden(inputs["target"], encoder(sounds), None)
        vars(self)["token_head"] = decoder.token_head(h)
        logits = decoder.logits(h)
        TaskModel.__init__(self, inputs, logits, arguments, **options)
        self.encoder = encoder
        self.decoder = decoder

    @method_of(transcribing.transcribe)
    def transcribe(self): ...

    @property
    def generation(self) -> WhisperGeneration | None:
        """The settings of decoding; None before the tokenizer is trained."""
        return self.preprocessor.generation

    @property
    def language(self) -> str | None:
        """The language of the transcripts to train on; can be set."""
        return self.preprocessor.language

    @language.setter
    def language(self, language: str | None) -> None:
        code = self.generation.check_language(language)
        self.preprocessor.language = self._arguments["language"] = code

    @property
    def vocabulary_size(self) -> int | None:
        """V, the number of ids; None before the tokenizer is trained."""
        return self.preprocessor.vocabulary_size

    @property
    def never_written(self) -> tuple[int, ...]:
        """The start, if the model has no other settings, which say what is left out."""
        own = self._arguments["generation"] is None
        return (self.generation.start,) if own else ()

    def encode(self, x: Any, y: Any = None) -> dict[str, np.ndarray]:
        """Returns sounds and transcripts as the arrays that the model reads.

        Args:
            x: A sound, or several as for `fit`.
            y: The transcript of each; None for the ids that each begins with.

        Returns:
            "audio" `(B, samples)`, "lengths" `(B,)` and "target" `(B, T)`; B is 1 for
            one sound.

        Raises:
            TypeError: If an input has the wrong type.
            ValueError: If there are no sounds, or not as many transcripts.
        """
        if self.preprocessor.is_one(x):
            x, y = [x], None if y is None else [y]
        x, y, _ = self.weighted_inputs(x, y, None)
        checks.several("x", x, "sounds")
        rows = learned_rows(self, x)
        if y is not None:
            rows.y = self.task.targets_of(rows, y)
        return rows.batch()

    def outputs_of(
        self, rows: Any, *, batch_size: int | None = None, **kwargs: Any
    ) -> np.ndarray:
        """Computes the logits after the prompt of each sound, `(rows, T, V)`."""
        batches = rows.in_order(batch_size or BATCH_SIZE)
        outputs = TaskModel.scores_of(self, batches, **kwargs)
        length = int(rows.lengths.max())  # the rest is padding
        return outputs[np.argsort(np.concatenate(batches.parts)), :length]

    def run_encoder(self, source: Tensor, length: int) -> dict[str, Any]:
        """Runs the encoder: sounds in a window, to the state before the first token."""
        memory = self.encode_frames(self.encoder.log_mel(source))
        return self.decoder.initial_state(memory, None, length)

    def encode_frames(self, frames: Tensor) -> Tensor:
        """Returns the vectors `(B, S, D)` of log-mel frames `(B, T, M)` of a window."""
        return self.encoder.encode(frames, training=False)

    def start_decoder(self, memory: Tensor, length: int) -> dict[str, Any]:
        """Returns the state before the first of `length` tokens, of vectors."""
        return self.decoder.initial_state(memory, None, length)

    def initial_state(self, source: Any, length: int) -> dict[str, Any]:
        """Returns the state of the decoder before the first of `length` tokens.

        Args:
            source: Sounds `(B, samples)`, padded with zeros, of at most a window.
            length: The most tokens, those of the prompt included.

        Raises:
            ValueError: If a sound is longer than the window, or the decoder reads fewer
                tokens.
        """
        check_positions(length, self.decoder.max_length, "max_length")
        # Sounds stay float32.
        own = {"casts": False, "length": bucket(length)}
        return compiled_method(self, "run_encoder", **own)(self._in_window(source))

    @functools.cached_property
    def step(self) -> TargetStep:
        """The step function of decoding: `(state, token) -> (logits, state)`."""
        return TargetStep(self, "decode_step", self.never_written)

    def decode_step(
        self, state: dict[str, Any], token: Tensor
    ) -> tuple[Tensor, dict[str, Any]]:
        """Returns logits `(B, V)` of the id after `token` `(B,)`, and the state."""
        return self.decoder.decode_step(state, token)

    def _in_window(self, sounds):
        """Sounds `(B, samples)`, padded with zeros to the window."""
        sounds = ops.convert_to_tensor(sounds, "float32")
        more = self.preprocessor.samples - sounds.shape[1]
        if more < 0:
            raise ValueError(
                f"audio must have at most {self.preprocessor.samples} samples, "
                f"window={self.preprocessor.window:g} seconds, received "
                f"{sounds.shape[1]}. Pass it in parts"
            )
        return ops.pad(sounds, ((0, 0), (0, more)))

    def cross_attentions(
        self, source: Any, target: Any, layers: Sequence[int] | None = None
    ) -> list[Tensor]:
        """Computes to which parts of sounds the decoder attends.

        Args:
            source: Sounds, as for `initial_state`.
            target: Ids `(B, T)` that the decoder reads, with the prompt.
            layers: Blocks of the decoder, counted from 0; None for all.

        Returns:
            For each of these layers the weights `(B, N, T, S)` of its heads, where S
            is the number of vectors of a window.

        Raises:
            ValueError: If there is no such layer.
        """
        frames = self.encoder.log_mel(self._in_window(source))
        return self.attention_to(self.memory_of(frames), target, layers)

    def memory_of(self, frames: Any) -> Tensor:
        """Computes the vectors `(B, S, D)` of the log-mel frames of windows."""
        encode = compiled_method(self, "encode_frames", casts=False)
        return encode(ops.convert_to_tensor(frames))

    def state_of(self, memory: Tensor, length: int) -> dict[str, Any]:
        """Returns the state before the first of `length` tokens, of vectors."""
        own = {"casts": False, "length": bucket(length)}
        return compiled_method(self, "start_decoder", **own)(memory)

    def attention_to(
        self, memory: Tensor, target: Any, layers: Sequence[int] | None = None
    ) -> list[Tensor]:
        """Computes `cross_attentions`, of vectors `(B, S, D)` instead of sounds."""
        count = len(self.decoder.blocks)
        chosen = tuple(range(count) if layers is None else layers)
        for layer in chosen:
            if not 0 <= layer < count:
                raise ValueError(
                    f"layers must be from 0 to {count - 1}, received {layer}"
                )
        programs = kernels.programs(self)

        def make():
            model = self._attention_model(chosen)
            return kernels.inference(model, pure=programs.pure)

        function = programs.get("cross_attentions", chosen, make)
        weights = function([memory, ops.convert_to_tensor(target, "int32")])
        return weights if isinstance(weights, list) else [weights]  # Keras unpacks one

    def _attention_model(self, layers):
        """Returns the model from vectors and ids to the attention weights of layers."""
        memory = keras.Input((None, self._arguments["hidden_dim"]))
        target = keras.Input((None,), dtype="int32")
        with pause():  # symbolic values cannot be recorded
            weights = self.decoder.cross_attentions(target, memory, None, layers)
        return keras.Model([memory, target], weights)


def layer_options(arguments: Config) -> LayerOptions:
    """Returns the options of the layers of a `Whisper` with these arguments."""
    a = arguments
    block = {
        "feed_forward": "gelu",
        "intermediate_dim": a["intermediate_dim"] or 4 * a["hidden_dim"],
    }
    return LayerOptions(
        encoder_blocks=[block] * a["num_layers"],
        decoder_blocks=[block] * (a["num_decoder_layers"] or a["num_layers"]),
        block={
            "num_heads": a["num_heads"],
            "dropout": a["dropout"],
            "norm": "layer",
            "norm_placement": "pre",
            "use_bias": True,
            "use_query_key_value_bias": "query_value",
            "layer_norm_epsilon": 1e-5,
        },
        position="learned",
        max_sequence_length=a["max_length"],
    )
