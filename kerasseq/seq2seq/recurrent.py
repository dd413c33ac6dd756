"""Recurrent translation models: RNNenc, RNNsearch, and their kin."""

import functools

import keras
from keras import ops

from kerasseq.attention.alignment import BahdanauAttention, LuongAttention
from kerasseq.core import checks
from kerasseq.core.arguments import own
from kerasseq.core.padding import PADDING
from kerasseq.core.serialization import register
from kerasseq.core.through import Through
from kerasseq.rnn.layer import RNN
from kerasseq.seq2seq.decoder import RecurrentDecoder
from kerasseq.seq2seq.sides import Side
from kerasseq.seq2seq.summary import Summary, summary_kind
from kerasseq.seq2seq.translator import Translator
from kerasseq.tasks.architectures import build_layers, first_output
from kerasseq.tasks.base import embedding_width

ATTENTIONS = {
    "bahdanau": BahdanauAttention,
    "luong": lambda units, **options: LuongAttention("general", **options),
}


@register
class Seq2Seq(Translator):
    r"""Read a source, then say a target, token by token.

    `attention=None` is RNNenc: all that the decoder knows of the source is one vector.
    `attention="bahdanau"` is RNNsearch: at each step it looks at the source again.

    Args:
        architecture: The encoder: "elman", "gated", "lstm", "peephole_lstm",
            "full_peephole_lstm", "coupled_lstm", "gru"; "transformer", which needs a
            recurrent `decoder`; a layer of your own from
            `(B, S, E)` to `(B, S, M)`; or a `keras.Model` that reads the source
            itself, such as an image, and gives `(B, S, M)` or a feature map
            `(B, rows, columns, M)`.
        source_tokenizer: A fitted tokenizer of `kerasseq.text`, saved with the model.
        target_tokenizer: The same for targets.
        source_vocabulary_size: Number of ids, for sources of ids, in which 0 is
            padding.
        target_vocabulary_size: The same for targets.
        attention: None, "bahdanau" (additive, looks before it steps), "luong"
            (general, looks after the step, all steps at once), or an attention layer
            such as `AlignmentAttention`, which looks after the step unless it is a
            `BahdanauAttention`.
        decoder: Architecture of the decoder, a name or one of our recurrent layers with
            `return_sequences`. That of the encoder if None.
        units: Width of the layers, for architectures by name.
        num_layers: Number of layers on each side, for architectures by name.
        bidirectional: Whether the encoder reads in both directions.
        embedding_dim: Width of the vector of a token. `units` if None.
        input_feeding: Whether a step of the decoder reads what the last one came to.
        dropout: Fraction dropped in training.
        scheduled_sampling: A `training.ScheduledSampling`: how often the decoder reads
            the truth in training. Always if None.
        **kwargs: `name` and `trainable`.

    Raises:
        TypeError: If an architecture or attention is of the wrong type.
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
        architecture,
        source_tokenizer=None,
        target_tokenizer=None,
        *,
        source_vocabulary_size=None,
        target_vocabulary_size=None,
        attention="bahdanau",
        decoder=None,
        units=128,
        num_layers=1,
        bidirectional=True,
        embedding_dim=None,
        input_feeding=False,
        dropout=0.0,
        scheduled_sampling=None,
        **kwargs,
    ):
        arguments = own(locals())
        reads_itself = isinstance(architecture, keras.Model)
        source_side = None
        if not reads_itself:
            source_side = Side(
                "source",
                source_tokenizer,
                source_vocabulary_size,
                getattr(attention, "max_length", None),
                longer="give its attention a larger max_length",
            )
        target_side = Side("target", target_tokenizer, target_vocabulary_size)
        width = embedding_width(embedding_dim, units)
        dropout = checks.rate("dropout", dropout)
        if reads_itself:
            source, memory, mask = read_features(architecture)
        else:
            layers = build_layers(
                architecture,
                units=units,
                num_layers=num_layers,
                bidirectional=bidirectional,
                dropout=dropout,
            )
            source, memory, mask = read_ids(layers, source_side.size, width)
        kind = summary_kind(None if reads_itself else layers[-1])
        summary = Summary(kind, name="summary")(memory, mask=mask)
        target = keras.Input((None,), dtype="int32", name="target")
        recurrent = RecurrentDecoder(
            decoder_layers(decoder, architecture, units, num_layers),
            target_side.size,
            embedding_dim=width,
            attention=attention_layer(attention, units),
            input_feeding=input_feeding,
            dropout=dropout,
            scheduled_sampling=scheduled_sampling,
            name="decoder",
        )
        logits = recurrent(target, memory, summary, memory_mask=mask)
        super().__init__([source, target], logits, arguments, **kwargs)
        self.source_side, self.target_side = source_side, target_side
        self.decoder = recurrent
        self.step = Through(recurrent, "say")
        self._ends = {"source": source, "target": target}
        self._memory = {"memory": memory, "summary": summary, "memory_mask": mask}

    @functools.cached_property
    def start_model(self):
        """From sources to the state before the first token."""
        state = Through(self.decoder, "begin")(**self._memory)
        return keras.Model([self._ends["source"]], state)

    @functools.cached_property
    def alignment_model(self):
        """From sources and targets to alignments; None if there is no attention."""
        if self.decoder.attention is None:
            return None
        align = Through(self.decoder, "align")
        alpha = align(self._ends["target"], **self._memory)
        return keras.Model(list(self._ends.values()), alpha)

    def places(self, source):
        if self.source_side is not None:
            return source.shape[1]
        known = self._memory["memory"].shape[1]
        if known is not None:
            return known
        shapes = self.start_model.compute_output_shape(source.shape)
        return shapes["source"]["memory"][1]


def attention_layer(attention, units):
    """The layer that a name stands for; a layer as it is."""
    if not isinstance(attention, str):
        return attention
    checks.one_of("attention", attention, (None, *ATTENTIONS))
    return ATTENTIONS[attention](units, name=f"{attention}_attention")


def decoder_layers(decoder, encoder, units, num_layers):
    """The recurrent layers of the decoder.

    Args:
        decoder: A name, a layer, or None.
        encoder: What stands for None: a name, or a layer, of which the decoder gets
            another one.
        units: Width of each layer, for a name.
        num_layers: How many there are, for a name.

    Raises:
        TypeError: If it is neither a name nor one of our layers.
        ValueError: If the layer gives its last output only.
    """
    architecture = encoder if decoder is None else decoder
    if not isinstance(architecture, str | RNN):
        raise TypeError(
            "decoder must be the name of an architecture, or a recurrent layer of "
            f"kerasseq.layers, got {architecture!r}. An encoder of another kind "
            'needs a decoder by name, such as decoder="gru"'
        )
    if architecture is encoder and isinstance(encoder, RNN):
        architecture = type(encoder).from_config(encoder.get_config())
    layers = build_layers(architecture, units=units, num_layers=num_layers)
    if not isinstance(layers[-1], RNN):
        raise ValueError(
            "the decoder of Seq2Seq must be a recurrent architecture, received "
            f'"{architecture}". Give a decoder by name, such as decoder="gru", or use '
            "models.Transformer"
        )
    if not layers[-1].return_sequences or layers[-1].go_backwards:
        raise ValueError(
            f"{layers[-1].name} cannot say a target: a decoder needs "
            "return_sequences=True, and go_backwards=False"
        )
    return layers


def read_ids(layers, size, width):
    """The graph from ids to a memory: input, memory `(B, S, M)`, mask `(B, S)`."""
    source = keras.Input((None,), dtype="int32", name="source")
    mask = ops.not_equal(source, PADDING)
    x = keras.layers.Embedding(size, width, mask_zero=True, name="embedding")(source)
    for layer in layers:
        if getattr(layer, "go_backwards", False):
            raise ValueError(
                f"{layer.name} gives its outputs in the order of processing, the last "
                "place first: build it with go_backwards=False, or in "
                "keras.layers.Bidirectional"
            )
        if not layer.supports_masking:  # to a convolution padding is zeros
            x = x * ops.cast(mask, x.dtype)[..., None]
        x = first_output(layer(x))
    if len(x.shape) != 3:
        raise ValueError(
            f"an encoder needs an output at every step, but {layer.name} gives "
            f"{x.shape}: build it with return_sequences=True"
        )
    return source, x, mask


def read_features(encoder):
    """The graph of an encoder that reads the source itself; each cell is a place."""
    shape = getattr(encoder, "input_shape", None)
    if not isinstance(shape, tuple):
        raise ValueError(
            f"{encoder.name} is to read the source, but has no single input of known "
            "shape: make it functional, or begin it with keras.Input(shape)"
        )
    source = keras.Input(shape[1:], name="source")
    x = encoder(source)
    if len(x.shape) < 3:
        raise ValueError(
            f"an encoder must give a memory (batch, places, features) or a feature "
            f"map, but {encoder.name} gives {x.shape}"
        )
    if len(x.shape) > 3:
        x = keras.layers.Reshape((-1, x.shape[-1]), name="memory")(x)
    return source, x, None
