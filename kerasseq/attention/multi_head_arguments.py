"""What multi-head attention is made of: its arguments, checked, and its weights."""

import math

import keras

from kerasseq.core import arguments, checks
from kerasseq.core.serialization import check_float64, shared_config
from kerasseq.core.shapes import (
    check_batches,
    check_mask,
    check_numbers,
    check_shape,
    check_width,
)
from kerasseq.core.sublayers import WithSublayers

SHARED = ("regularizer", "constraint", "initializer")


class MultiHeadArguments(WithSublayers, keras.layers.Layer):
    """The constructor and the projections of `MultiHeadAttention`."""

    def __init__(
        self,
        num_heads,
        key_dim,
        value_dim=None,
        dropout=0.0,
        use_bias=True,
        output_shape=None,
        attention_axes=None,
        sliding_window=None,
        flash_attention=None,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        kernel_regularizer=None,
        bias_regularizer=None,
        activity_regularizer=None,
        kernel_constraint=None,
        bias_constraint=None,
        use_gate=False,
        seed=None,
        *,
        num_key_value_heads=None,
        scale=None,
        position=None,
        value_initializer=None,
        use_query_key_value_bias=None,
        query_key_norm=None,
        output_initializer=None,
        **kwargs,
    ):
        given = arguments.own(locals())
        for name in ("position", "query_key_norm"):
            del given[name]  # a layer in a dictionary would be saved with it
        super().__init__(**kwargs)
        check_float64(self)
        self.supports_masking = True
        # `output_shape` is a property of every Keras layer, and an activity regularizer
        # is for the projections.
        self._given = given
        for name in set(given) - {"output_shape", "activity_regularizer"}:
            setattr(self, name, arguments.revive(name, given[name]))
        self._check_numbers()
        self.value_dim = self.key_dim if value_dim is None else self.value_dim
        if isinstance(position, dict):  # as a file has it
            position = keras.saving.deserialize_keras_object(position)
        self.query_key_norm = _config_of_norm(query_key_norm)
        self.query_norm = self.key_norm = None
        # Tracked by Keras from `build` on: its weights come after those that Keras has.
        object.__setattr__(self, "position", position)
        if self.dropout:
            self.seed_generator = arguments.seed_generator(seed)

    def _check_numbers(self):
        for name in ("num_heads", "key_dim"):
            checks.whole_number(name, getattr(self, name))
        for name in ("value_dim", "sliding_window", "num_key_value_heads"):
            if getattr(self, name) is not None:
                checks.whole_number(name, getattr(self, name))
        if self.scale is not None:
            checks.number("scale", self.scale)
        checks.one_of(
            "use_query_key_value_bias",
            self.use_query_key_value_bias,
            (None, True, False),
        )
        self.dropout = checks.rate("dropout", self.dropout)
        if self.flash_attention and self.dropout:
            raise ValueError(
                f"flash attention drops no weights: with dropout={self.dropout} leave "
                "flash_attention out"
            )
        check_groups(self.num_heads, self.key_value_heads)

    @property
    def key_value_heads(self):
        """How many heads keys and values have."""
        return self.num_key_value_heads or self.num_heads

    @property
    def groups(self):
        """Query heads that share a head of keys and values."""
        return self.num_heads // self.key_value_heads

    @property
    def factor(self):
        """λ, which scales the scores."""
        return 1 / math.sqrt(self.key_dim) if self.scale is None else self.scale

    def build(self, query_shape, value_shape, key_shape=None):
        key_shape = key_shape or value_shape
        shapes = {"query": query_shape, "value": value_shape, "key": key_shape}
        for name, shape in shapes.items():
            check_shape(name, shape, more=True)
        check_alike(**shapes)
        self._widths = tuple(shape[-1] for shape in shapes.values())
        self._rank = len(query_shape)
        self.attended = self._attended(self._rank)
        bias = {"use_bias": self.use_query_key_value_bias}
        if bias["use_bias"] is None:
            bias["use_bias"] = self.use_bias
        N, M = self.num_heads, self.key_value_heads
        checks.fits_memory("key_dim", self.key_dim, N * query_shape[-1])
        checks.fits_memory("value_dim", self.value_dim, M * value_shape[-1])
        self.query_dense = self._split("query", query_shape, N, **bias)
        self.key_dense = self._split("key", key_shape, M, **bias)
        if self.use_gate:
            self.gate_dense = self._split(
                "gate", query_shape, N, self.value_dim, activation="sigmoid"
            )
        self.value_dense = self._split("value", value_shape, M, self.value_dim, **bias)
        self.output_dense = self._join(query_shape)
        if self.query_key_norm is not None:
            self.query_norm = self._make_norm("query_norm", query_shape, N)
            self.key_norm = self._make_norm("key_norm", key_shape, M)
        self._build_position()
        self.built = True

    def _build_position(self):
        """One that biases scores learns from their shape how many heads there are.

        One in which queries have a say learns it from theirs.
        """
        position, N = self.position, self.num_heads
        if hasattr(position, "build") and not getattr(position, "built", False):
            by_queries = (None, None, N, self.key_dim)
            scores = (None, N, None, None)
            position.build(by_queries if hasattr(position, "content") else scores)
        self.position = position

    def _attended(self, rank):
        """The axes to attend over, counted from the front."""
        chosen = self.attention_axes
        if chosen is None:
            return tuple(range(1, rank - 1))
        chosen = (chosen,) if isinstance(chosen, int) else chosen
        found = tuple(axis if axis >= 0 else rank + axis for axis in chosen)
        if not all(0 < axis < rank - 1 for axis in found):
            raise ValueError(
                f"attention_axes={self.attention_axes} must lie between batch and "
                f"features of a query of {rank} axes"
            )
        return found

    def _make_norm(self, name, shape, heads):
        """A copy of the norm, for heads `(..., N, K)`."""
        norm = keras.saving.deserialize_keras_object(self.query_key_norm)
        config = {**norm.get_config(), "name": name, "dtype": self.dtype_policy}
        norm = type(norm).from_config(config)
        norm.supports_masking = True  # each vector is normalized by itself
        norm.build((*shape[:-1], heads, self.key_dim))
        return norm

    def _split(self, name, shape, heads, width=None, *, use_bias=None, activation=None):
        """The projection of `(..., D)` to `(..., N, K)`."""
        use_bias = self.use_bias if use_bias is None else use_bias
        free = "abcdefgh"[: len(shape) - 1]
        width = width or self.key_dim
        layer = keras.layers.EinsumDense(
            f"{free}x,xyz->{free}yz",
            output_shape=(*[None] * (len(free) - 1), heads, width),
            bias_axes="yz" if use_bias else None,
            activation=activation,
            name=name,
            **self._shared(name),
        )
        layer.supports_masking = True  # masks are used here, and nobody need warn
        layer.build(shape)
        return layer

    def _join(self, query_shape):
        """The projection of `(..., N, V)` to the output."""
        free = "abcdefgh"[: len(query_shape) - 1]
        width = self._given["output_shape"] or query_shape[-1]
        width = (width,) if isinstance(width, int) else tuple(width)
        out = "uvw"[: len(width)]
        layer = keras.layers.EinsumDense(
            f"{free}yz,yz{out}->{free}{out}",
            output_shape=(*[None] * (len(free) - 1), *width),
            bias_axes=out if self.use_bias else None,
            name="attention_output",
            **self._shared("attention_output"),
        )
        layer.build((*query_shape[:-1], self.num_heads, self.value_dim))
        return layer

    def _shared(self, name):
        """What the projections have in common; initializers are not shared."""
        own = ("value_initializer", "output_initializer")
        names = {n for n in self._given if n.endswith(SHARED)} - set(own)
        made = {n: self._as_config(n) for n in names}
        if name in ("value", "attention_output") and self.value_initializer:
            made["kernel_initializer"] = self._as_config("value_initializer")
        if name == "attention_output" and self.output_initializer:
            made["kernel_initializer"] = self._as_config("output_initializer")
        return {**made, "dtype": self.dtype_policy}

    def compute_output_spec(self, *args, **kwargs):
        # There may be weights and a cache, too: Keras finds out by a call.
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def _check_inputs(self, inputs, given, cached):
        """Raise where inputs, masks and cache do not fit, as far as it is known."""
        cache, index, cached_mask = cached
        names, shapes = ("query", "value", "key"), {}
        for name, x, width in zip(names, inputs, self._widths, strict=True):
            if x is not None:
                check_numbers(name, x, more=True)
                shapes[name] = tuple(x.shape)
                if name == "query" or cache is None or index is not None:
                    check_width(name, x.shape, width)
        check_batches(**shapes)
        check_alike(**shapes)
        if len(shapes["query"]) != self._rank:
            raise ValueError(
                f"{self.name} was built for {self._rank} axes, received a query of "
                f"shape {shapes['query']}, with {len(shapes['query'])} axes"
            )
        (B, T, *_), new = shapes["query"], shapes["value"][1]
        S = new if cache is None else cache["key"].shape[1]
        if isinstance(index, int) and None not in (new, S) and index + new > S:
            raise ValueError(
                f"the cache has {S} places: {new} new ones do not fit at "
                f"cache_update_index={index}. Make it longer with make_cache"
            )
        if len(shapes["query"]) > 3:
            return  # a mask may be of some of the axes
        mask, *of_steps = given
        axes, sizes = ("batch", "heads", "query_time", "key_time"), (B, None, T, S)
        rank = 3 if mask is None else len(getattr(mask, "shape", (0,) * 3))
        chosen = {2: [2, 3], 4: [0, 1, 2, 3]}.get(rank, [0, 2, 3])
        axes, sizes = ([each[n] for n in chosen] for each in (axes, sizes))
        check_mask("attention_mask", mask, axes, sizes)
        lengths = {"query_mask": T, "value_mask": new, "key_mask": new}
        for (name, length), one in zip(lengths.items(), of_steps, strict=True):
            check_mask(name, one, ("batch", "time"), (B, length))
        check_mask("cached_mask", cached_mask, ("batch", "places"), (B, S))

    def get_config(self):
        config = super().get_config()
        config |= {name: self._as_config(name) for name in self._given}
        config["position"] = shared_config(self.position)
        config["query_key_norm"] = self.query_key_norm
        return config

    def _as_config(self, name):
        return arguments.as_config(name, arguments.revive(name, self._given[name]))


def _config_of_norm(norm):
    """The config of a norm of which copies are made, or None.

    Raises:
        TypeError: If `norm` is not a layer.
    """
    if norm is None or isinstance(norm, dict):  # as a file has it
        return norm
    if isinstance(norm, keras.Layer):
        return keras.saving.serialize_keras_object(norm)
    raise TypeError(
        "query_key_norm must be a normalization layer of which copies are made, or "
        f"None, received {norm!r}. Pass keras.layers.RMSNormalization(), for example"
    )


def check_alike(query, value, key=None):
    """Raise unless value and key have the axes of the query and one length."""
    if len(query) != len(value):
        raise ValueError(
            "query and value must have equally many axes, received shapes "
            f"{tuple(query)} and {tuple(value)}"
        )
    key = value if key is None else key
    pairs = zip(value[1:-1], key[1:-1], strict=False)
    if len(value) != len(key) or any(None not in p and p[0] != p[1] for p in pairs):
        raise ValueError(
            "value and key must have the same sizes but for the last, received shapes "
            f"{tuple(value)} and {tuple(key)}"
        )


def check_groups(num_heads, key_value_heads):
    """Raise if heads of queries cannot share those of keys and values evenly."""
    if num_heads % key_value_heads:
        raise ValueError(
            f"num_key_value_heads={key_value_heads} must divide "
            f"num_heads={num_heads}: groups are of equal size"
        )
