"""Recurrent encoder-decoder models: RNNenc, RNNsearch and variants."""

import functools
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq.attention.alignment import BahdanauAttention, LuongAttention
from kerasseq.core import checks
from kerasseq.core.method_layer import MethodLayer
from kerasseq.core.padding import PADDING
from kerasseq.core.serialization import register
from kerasseq.models.causal_lm import check_memory
from kerasseq.models.seq2seq.pooling import EncoderPooling, pooling_mode
from kerasseq.models.seq2seq.recurrent_decoder import (
    OUTPUT_READS,
    RecurrentDecoder,
)
from kerasseq.models.seq2seq.target_step import TargetStep
from kerasseq.models.seq2seq.translator import Translator
from kerasseq.models.seq2seq.vocabulary import Vocabulary
from kerasseq.rnn.layer import RNN
from kerasseq.tasks.architectures import build_layers, first_output
from kerasseq.tasks.inputs import embedding_width
from kerasseq.text.tokenizers.conversion import AnyTokenizer, fitted_tokenizer
from kerasseq.tracing.listeners import pause
from kerasseq.training import ScheduledSampling


@register
class Seq2Seq(Translator):
    r"""Encodes a source, and decodes a target token by token.

    With `attention=None`, RNNenc, the decoder gets one vector of the source. With
    `attention="bahdanau"`, RNNsearch, it attends to the source at each step.

    Args:
        architecture: The encoder: "elman", "gated", "lstm", "peephole_lstm",
            "full_peephole_lstm", "coupled_lstm", "gru", "min_gru", "min_lstm" or
            "slstm"; "transformer", "blockwise", "longformer", "reformer", "linformer",
            "adaptive_span", "wavenet", "linear_attention", "gla", "retention",
            "delta_net", "mlstm", "rwkv7", "s4d", "mamba" or "rwkv4", with a recurrent
            `decoder`;
            a layer from `(B, S, E)` to `(B, S, M)`; or a `keras.Model` whose input is
            the source, such as an image, and whose output is `(B, S, M)` or a feature
            map `(B, rows, columns, M)`.
        source_tokenizer: Fitted, saved with the model; see
            `kerasseq.text.as_tokenizer`.
        target_tokenizer: The same for targets.
        source_vocabulary_size: Number of ids, for sources of ids; 0 is padding.
        target_vocabulary_size: The same for targets.
        attention: None; "bahdanau", additive attention before each step; "luong",
            general attention after each step, which runs for all steps at once; or an
            attention layer such as `AlignmentAttention`, which is applied after the
            step unless it is a `BahdanauAttention`.
        decoder: Architecture of the decoder: a name, or a recurrent layer of
            `kerasseq.layers` with `return_sequences=True`. If None, that of the
            encoder.
        units: Units of each layer, for architectures by name.
        num_layers: Number of layers of encoder and decoder each, for architectures by
            name.
        bidirectional: Whether the encoder is bidirectional.
        embedding_dim: Size of the token embeddings. `units` if None.
        input_feeding: Whether the output of a step of the decoder is an input of the
            next one (Luong et al.).
        dropout: Dropout rate.
        scheduled_sampling: A `training.ScheduledSampling`: how often the input of the
            decoder is the target token in training. Always if None.
        output_reads: What the output reads beside the state and the context of a step:
            "previous", the embedding of the previous token, as in Bahdanau's
            $g(y_{t-1}, s_t, c_t)$; nothing if None.
        **kwargs: `name` and `trainable`.

    Raises:
        TypeError: If an architecture or attention has the wrong type.
        ValueError: If a name or number is wrong.

    Examples:
        >>> import kerasseq
        >>> letters = kerasseq.text.CharacterTokenizer().fit("abc")
        >>> model = Seq2Seq("gru", letters, letters, units=5)
        >>> translation = model.translate("abba", max_length=4)
        >>> translation.alignment.shape[1], translation.source_tokens
        (4, ['a', 'b', 'b', 'a'])

    References:
        Cho et al. 2014; Bahdanau et al. 2015; Luong et al. 2015. Slides A, C, D.
    """

    def __init__(
        self,
        architecture: str | keras.Layer,
        source_tokenizer: AnyTokenizer | None = None,
        target_tokenizer: AnyTokenizer | None = None,
        *,
        source_vocabulary_size: int | None = None,
        target_vocabulary_size: int | None = None,
        attention: str | keras.Layer | None = "bahdanau",
        decoder: str | keras.Layer | None = None,
        units: int = 128,
        num_layers: int = 1,
        bidirectional: bool = True,
        embedding_dim: int | None = None,
        input_feeding: bool = False,
        dropout: float = 0.0,
        scheduled_sampling: ScheduledSampling | None = None,
        output_reads: str | None = None,
        **kwargs: Any,
    ) -> None:
        source_tokenizer = fitted_tokenizer(source_tokenizer, "source_tokenizer")
        target_tokenizer = fitted_tokenizer(target_tokenizer, "target_tokenizer")
        config = {
            "architecture": architecture,
            "source_tokenizer": source_tokenizer,
            "target_tokenizer": target_tokenizer,
            "source_vocabulary_size": source_vocabulary_size,
            "target_vocabulary_size": target_vocabulary_size,
            "attention": attention,
            "decoder": decoder,
            "units": checks.size("units", units),
            "num_layers": checks.size("num_layers", num_layers),
            "bidirectional": checks.flag("bidirectional", bidirectional),
            "embedding_dim": embedding_dim,
            "input_feeding": checks.flag("input_feeding", input_feeding),
            "dropout": checks.rate("dropout", dropout),
            "scheduled_sampling": scheduled_sampling,
            "output_reads": checks.one_of("output_reads", output_reads, OUTPUT_READS),
        }
        features = isinstance(architecture, keras.Model)  # sources are not ids
        source_vocabulary = None
        if not features:
            source_vocabulary = Vocabulary(
                "source",
                source_tokenizer,
                source_vocabulary_size,
                getattr(attention, "max_length", None),
                advice="Give its attention a larger max_length",
            )
        target_vocabulary = Vocabulary(
            "target", target_tokenizer, target_vocabulary_size
        )
        embedding_dim = embedding_width(embedding_dim, units)
        check_memory(
            units,
            embedding_dim=embedding_dim,
            source_vocabulary_size=source_vocabulary and source_vocabulary.size,
            target_vocabulary_size=target_vocabulary.size,
            num_layers=num_layers * (units if isinstance(architecture, str) else 1),
        )
        if features:
            source, memory, mask = encode_features(architecture)
            mode = pooling_mode(None)
        else:
            layers = build_layers(
                architecture,
                units=units,
                num_layers=num_layers,
                bidirectional=bidirectional,
                dropout=dropout,
            )
            source, memory, mask = encode_ids(
                layers, source_vocabulary.size, embedding_dim
            )
            mode = pooling_mode(layers[-1])
        summary = EncoderPooling(mode, name="pooling")(memory, mask=mask)
        target = keras.Input((None,), dtype="int32", name="target")
        recurrent_decoder = RecurrentDecoder(
            decoder_layers(decoder, architecture, units, num_layers),
            target_vocabulary.size,
            embedding_dim=embedding_dim,
            attention=make_attention(attention, units),
            input_feeding=input_feeding,
            dropout=dropout,
            scheduled_sampling=scheduled_sampling,
            output_reads=output_reads,
            name="decoder",
        )
        logits = recurrent_decoder(target, memory, summary, memory_mask=mask)
        super().__init__([source, target], logits, config, **kwargs)
        self.source_vocabulary = source_vocabulary
        self.target_vocabulary = target_vocabulary
        self.decoder = recurrent_decoder
        never = target_vocabulary.never_written
        self.step: MethodLayer = TargetStep(recurrent_decoder, "decode_step", never)
        self._encoder_outputs = {
            "memory": memory,
            "summary": summary,
            "memory_mask": mask,
        }

    @functools.cached_property
    def initial_state_model(self) -> keras.Model:
        """The model from sources to the state before the first token."""
        initial_state = MethodLayer(self.decoder, "initial_state")
        with pause():  # symbolic values cannot be recorded
            state = initial_state(**self._encoder_outputs)
        return keras.Model(self.inputs[:1], state)

    def initial_state(self, source: np.ndarray, length: int) -> dict[str, Any]:
        return self._compiled("initial_state_model")([source])

    @functools.cached_property
    def alignment_model(self) -> keras.Model | None:
        """The model from source and target to alignments; None without attention."""
        if self.decoder.attention is None:
            return None
        attention_scores = MethodLayer(self.decoder, "attention_scores")
        with pause():
            alpha = attention_scores(self.inputs[1], **self._encoder_outputs)
        return keras.Model(self.inputs, alpha)

    def source_length(self, source: np.ndarray) -> int:
        if self.source_vocabulary is not None:
            return source.shape[1]
        length = self._encoder_outputs["memory"].shape[1]
        if length is not None:
            return length
        shapes = self.initial_state_model.compute_output_shape(source.shape)
        return shapes["source"]["memory"][1]


def make_attention(
    attention: str | keras.Layer | None, units: int
) -> keras.Layer | None:
    """Returns the attention layer of a name; a layer, or None, as it is."""
    if not isinstance(attention, str):
        return attention
    checks.one_of("attention", attention, (None, "bahdanau", "luong"))
    name = f"{attention}_attention"
    if attention == "bahdanau":
        return BahdanauAttention(units, name=name)
    return LuongAttention("general", name=name)


def decoder_layers(
    decoder: str | keras.Layer | None,
    encoder: str | keras.Layer,
    units: int,
    num_layers: int,
) -> list[keras.Layer]:
    """Returns the recurrent layers of the decoder.

    Args:
        decoder: A name, a layer, or None for another one like the encoder.
        encoder: A name or a layer.
        units: Units of each layer, for a name.
        num_layers: Number of layers, for a name.

    Raises:
        TypeError: If it is neither a name nor a recurrent layer of `kerasseq.layers`.
        ValueError: If the layer returns its last output only.
    """
    architecture = encoder if decoder is None else decoder
    if not isinstance(architecture, str | RNN):
        raise TypeError(
            "decoder must be the name of an architecture, or a recurrent layer of "
            f"kerasseq.layers, received {architecture!r}. With an encoder of another "
            'kind, pass a decoder by name, such as decoder="gru"'
        )
    if architecture is encoder and isinstance(encoder, RNN):
        architecture = type(encoder).from_config(encoder.get_config())
    layers = build_layers(architecture, units=units, num_layers=num_layers)
    last = layers[-1]
    if not isinstance(last, RNN):
        raise ValueError(
            "the decoder of Seq2Seq must be a recurrent architecture, received "
            f'"{architecture}". Pass a decoder by name, such as decoder="gru", or use '
            "models.Transformer"
        )
    if not last.return_sequences or last.go_backwards:
        raise ValueError(
            "a decoder must have return_sequences=True and go_backwards=False, "
            f"received {last.name} with return_sequences={last.return_sequences} and "
            f"go_backwards={last.go_backwards}"
        )
    return layers


def encode_ids(
    layers: Sequence[keras.Layer], vocabulary_size: int, embedding_dim: int
) -> tuple[keras.KerasTensor, keras.KerasTensor, keras.KerasTensor]:
    """Builds the graph of the encoder: input, memory `(B, S, M)` and mask `(B, S)`."""
    source = keras.Input((None,), dtype="int32", name="source")
    mask = ops.not_equal(source, PADDING)
    x = keras.layers.Embedding(
        vocabulary_size, embedding_dim, mask_zero=True, name="embedding"
    )(source)
    for layer in layers:
        if getattr(layer, "go_backwards", False):
            raise ValueError(
                "an encoder must return its outputs in the order of the source, "
                f"received {layer.name} with go_backwards=True. Build it with "
                "go_backwards=False, or use keras.layers.Bidirectional"
            )
        if not layer.supports_masking:  # such as a convolution: padding is zeros
            x = x * ops.cast(mask, x.dtype)[..., None]
        x = first_output(layer(x))
    if len(x.shape) != 3:
        raise ValueError(
            "an encoder must return an output at every step, (batch, time, features), "
            f"received {layer.name} with outputs of shape {x.shape}. Build it with "
            "return_sequences=True"
        )
    return source, x, mask


def encode_features(
    encoder: keras.Model,
) -> tuple[keras.KerasTensor, keras.KerasTensor, None]:
    """Builds the graph of an encoder model; each cell of a feature map is a position.

    Returns:
        Input, memory `(B, S, M)`, and None for the mask.
    """
    shape = getattr(encoder, "input_shape", None)
    if not isinstance(shape, tuple):
        raise ValueError(
            "an encoder model must have one input of known shape, received "
            f"{encoder.name} with input_shape={shape}. Make it functional, or begin it "
            "with keras.Input(shape)"
        )
    source = keras.Input(shape[1:], name="source")
    x = encoder(source)
    if len(x.shape) < 3:
        raise ValueError(
            "an encoder model must return (batch, time, features) or a feature map, "
            f"received {encoder.name} with outputs of shape {x.shape}"
        )
    if len(x.shape) > 3:
        x = keras.layers.Reshape((-1, x.shape[-1]), name="memory")(x)
    return source, x, None
