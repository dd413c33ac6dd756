"""Recurrent encoder-decoder models: RNNenc, RNNsearch and variants."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq.attention import choices
from kerasseq.attention.alignment import BahdanauAttention, LuongAttention
from kerasseq.core import checks
from kerasseq.core.method_layer import MethodLayer
from kerasseq.core.padding import PADDING
from kerasseq.core.serialization import register
from kerasseq.models.arguments import among, check_weights, checked_arguments
from kerasseq.models.seq2seq.hard_attention import is_reinforced
from kerasseq.models.seq2seq.pictures import as_maps
from kerasseq.models.seq2seq.pooling import EncoderPooling, pooling_mode
from kerasseq.models.seq2seq.recurrent_decoder import (
    OUTPUT_READS,
    RecurrentDecoder,
)
from kerasseq.models.seq2seq.target_step import TargetStep
from kerasseq.models.seq2seq.translation import BATCH_SIZE
from kerasseq.models.seq2seq.translator import Translator
from kerasseq.models.seq2seq.vocabulary import Rows, Vocabulary
from kerasseq.rnn.layer import RNN
from kerasseq.tasks.architectures import build_layers, first_output
from kerasseq.tasks.loss_chunks import TokenHead
from kerasseq.tasks.sequence_layers import embedding_width
from kerasseq.text.tokenizers.conversion import AnyTokenizer
from kerasseq.tracing.listeners import pause
from kerasseq.training import Reinforcement, ScheduledSampling

ATTENTIONS = (None, "bahdanau", "soft", "hard", "luong")


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
        attention: None; "bahdanau", additive attention before each step, which is also
            the "soft" attention of Xu et al.; "hard", the same with one position for
            each step, sampled in training, see `reinforcement`; "luong", general
            attention after each step, which runs for all steps at once; or an attention
            layer such as `AlignmentAttention`, which is applied after the step unless
            it is a `BahdanauAttention`.
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
        doubly_stochastic: $\lambda$ of $\lambda \sum_i (1 - \sum_t \alpha_{ti})^2$,
            which `fit` adds to the loss of soft attention, as a mean over the batch:
            with it no position is left out (Xu et al., equation 14).
        reinforcement: How hard attention is trained, a `training.Reinforcement`; its
            defaults if None. The position with the highest score is read in `evaluate`,
            `predict` and `translate`, and the loss that `fit` reports is without the
            term of the choices.
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
        Cho et al. 2014; Bahdanau et al. 2015; Luong et al. 2015; Xu et al. 2015, whose
        factor $\beta_t$ of the context is left out. Slides A, B, C, D.
    """

    divides_weights: bool = False

    @checked_arguments(embedding_dim=None, output_reads=among(*OUTPUT_READS))
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
        doubly_stochastic: float = 0.0,
        reinforcement: Reinforcement | None = None,
        **kwargs: Any,
    ) -> None:
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
        sizes = {
            "units": units,
            "embedding_dim": embedding_dim,
            "source_vocabulary_size": source_vocabulary and source_vocabulary.size,
            "target_vocabulary_size": target_vocabulary.size,
        }
        check_weights(sizes, units)
        others = units * units if isinstance(architecture, str) else units
        check_weights({"num_layers": num_layers}, others)
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
            doubly_stochastic=doubly_stochastic,
            reinforcement=reinforcement,
            name="decoder",
        )
        read = functools.partial(
            recurrent_decoder, target, memory, summary, memory_mask=mask
        )
        to_logits = recurrent_decoder.logits
        hidden = functools.partial(hidden_states, recurrent_decoder, read)
        vars(self)["token_head"] = TokenHead(hidden, [to_logits], to_logits)
        logits = read()
        super().__init__([source, target], logits, self._arguments, **kwargs)
        self.source_vocabulary = source_vocabulary
        self.target_vocabulary = target_vocabulary
        self.decoder = recurrent_decoder
        self._encoder_name = architecture.name if features else None
        never = target_vocabulary.never_written
        self.step: MethodLayer = TargetStep(recurrent_decoder, "decode_step", never)
        self._encoder_outputs = {
            "memory": memory,
            "summary": summary,
            "memory_mask": mask,
        }

    def call(self, inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
        if not (training and is_reinforced(self.decoder.attention)):
            return super().call(inputs, training=training, mask=mask)
        with choices.collect() as chosen:
            logits = super().call(inputs, training=training, mask=mask)
        vars(self)["_choices"] = (
            chosen  # not an attribute for Keras, which copies lists
        )
        return logits

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        """Computes the loss of a batch, and in training the gradient of hard attention.

        The term of the choices is 0, and only its gradient counts.
        """
        chosen = vars(self).pop("_choices", None)
        loss = super().compute_loss(x, y, y_pred, sample_weight, training)
        if not (training and chosen):
            return loss
        term = self.decoder.reinforced_choices.term(chosen, y, y_pred)
        return loss + ops.cast(term, loss.dtype)

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

    def map_shape(self, source: np.ndarray) -> tuple[int, ...] | None:
        if self.source_vocabulary is not None:
            return None
        shape = self.get_layer(self._encoder_name).compute_output_shape(source.shape)
        return None if len(shape) < 4 else tuple(shape[1:-1])

    def attention_maps(
        self, sources: Any, targets: Rows, *, batch_size: int = BATCH_SIZE
    ) -> list[np.ndarray]:
        """Computes where attention lies over each picture for each word of its caption.

        Args:
            sources: Pictures, as for `fit`.
            targets: The caption of each, which need not be what the model writes.
            batch_size: Pictures that are processed at once.

        Returns:
            One array for each picture, `(tokens, rows, columns)` of the feature map,
            each map with the sum 1. The last one is that of the end token.

        Raises:
            TypeError: If a row has the wrong type.
            ValueError: If the model has no attention, the encoder returns no feature
                map, or a row is wrong.

        Examples:
            >>> from kerasseq.text import WordTokenizer
            >>> words = WordTokenizer().fit(["red cross"])
            >>> layers = [keras.Input((8, 8, 3)), keras.layers.Conv2D(7, 4, 4)]
            >>> encoder = keras.Sequential(layers)
            >>> model = Seq2Seq(encoder, target_tokenizer=words, decoder="gru", units=5)
            >>> maps = model.attention_maps(np.zeros((1, 8, 8, 3)), ["red cross"])
            >>> maps[0].shape
            (3, 2, 2)
        """
        if self.alignment_model is None:
            raise ValueError(
                "attention_maps needs a model with attention, received one with "
                'attention=None. Build it with attention="soft" or "hard"'
            )
        rows, _ = self.token_generation.read_prompts(sources)
        targets = [targets] if isinstance(targets, str) else targets
        source, target = self.encode(rows, targets)
        shape = self.map_shape(source[:1])
        if shape is None:
            raise ValueError(
                "attention_maps needs an encoder model that returns a feature map "
                "(batch, rows, columns, features), received another one. Use "
                "translate(...).alignment"
            )
        maps = []
        size = checks.whole_number("batch_size", batch_size)
        for first in range(0, len(target), size):
            ids = target[first : first + size]
            alpha = ops.convert_to_numpy(
                self.align([source[first : first + size], ids])
            )
            lengths = (ids != PADDING).sum(axis=1).tolist()
            for weights, length in zip(alpha, lengths, strict=True):
                maps.append(as_maps(weights[:length], shape))
        return maps

    def source_length(self, source: np.ndarray) -> int:
        if self.source_vocabulary is not None:
            return source.shape[1]
        length = self._encoder_outputs["memory"].shape[1]
        if length is not None:
            return length
        shapes = self.initial_state_model.compute_output_shape(source.shape)
        return shapes["source"]["memory"][1]


def hidden_states(
    decoder: RecurrentDecoder, read: Callable[..., keras.KerasTensor]
) -> keras.KerasTensor:
    """Returns the symbolic hidden states before the logits, for `loss_chunk_size`.

    Args:
        decoder: The decoder.
        read: Calls it with its symbolic inputs.

    Raises:
        ValueError: If it has hard attention that learns from a reward.
    """
    if is_reinforced(decoder.attention):
        raise ValueError(
            "loss_chunk_size must be None for hard attention, whose reward reads all "
            f"logits, received a Seq2Seq with {decoder.attention.name}. Leave it out, "
            'or build the model with attention="soft"'
        )
    with pause():  # symbolic values cannot be recorded
        return read(return_hidden=True)


def make_attention(
    attention: str | keras.Layer | None, units: int
) -> keras.Layer | None:
    """Returns the attention layer of a name; a layer, or None, as it is."""
    if not isinstance(attention, str):
        return attention
    checks.one_of("attention", attention, ATTENTIONS)
    name = f"{attention}_attention"
    if attention == "luong":
        return LuongAttention("general", name=name)
    if attention == "hard":
        return BahdanauAttention(units, hard=True, gradient="reinforce", name=name)
    return BahdanauAttention(units, name=name)


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
