"""What the models of all tasks share: inputs, saving, and how they compile."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import keras
import numpy as np

from kerasseq import kernels
from kerasseq.core import checks, sublayers
from kerasseq.core.arguments import check_names
from kerasseq.core.layouts import layout_map
from kerasseq.core.portable import portable_settings, public_optimizers
from kerasseq.core.types import Config, FilePath
from kerasseq.tasks import (
    adapter_files,
    adapters,
    quantized,
    rematerialization,
    scoring,
)
from kerasseq.tasks.data_checks import check_data
from kerasseq.tasks.early_stopping import with_early_stopping
from kerasseq.tasks.fitted import needs_fit
from kerasseq.tasks.input_rows import check_not_empty
from kerasseq.tasks.loss_means import LossMeans
from kerasseq.tasks.output_losses import copied
from kerasseq.tasks.plain import as_plain, from_plain

BATCH_SIZE = 32
FIT = (*inspect.signature(keras.Model.fit).parameters, "patience")


@needs_fit
class TaskModel(keras.Model):
    """A functional model that is saved as the arguments it was made from.

    A subclass builds its graph in `__init__`, hands inputs, outputs and its arguments
    over, and sets `default_loss` and `default_metrics`. One whose layers depend on data
    sets `awaits_fit` until `fit` builds them.
    """

    awaits_fit: bool = False
    divides_weights: bool = True  # among devices
    loss_means: Any  # a `LossMeans`
    micro_batches: int = 1  # in which the gradient of a batch is computed
    get_layout_map: "classmethod[Any, ..., Any]" = classmethod(layout_map)
    _compile_arguments: tuple[Any, Any] = ((), {})

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        model = super().__new__(cls, *args, **kwargs)
        # Keras puts one on each instance that refuses other modes than its own.
        vars(model).pop("quantize", None)
        return model

    def __init__(
        self, inputs: Any, outputs: Any, arguments: dict[str, Any], **kwargs: Any
    ) -> None:
        self._check_options(kwargs)
        if self.awaits_fit:
            self.awaits_fit = False
        super().__init__(inputs=inputs, outputs=outputs, **kwargs)
        self._arguments = arguments
        self.compile()

    def await_fit(self, arguments: dict[str, Any], options: dict[str, Any]) -> None:
        """Makes a model without layers, which `fit` builds, as they depend on data.

        Args:
            arguments: The arguments that it is made from.
            options: `name` and `trainable`.
        """
        self._check_options(options)
        keras.Model.__init__(self, **options)
        self.awaits_fit = True
        self._arguments = arguments

    def _check_options(self, options):
        own = type(self).__init__
        check_names(type(self).__name__, own, ("name", "trainable"), options)

    def compile(
        self,
        optimizer: keras.optimizers.Optimizer | str | None = None,
        loss: Any = None,
        loss_weights: Any = None,
        metrics: Any = None,
        *,
        remat: str | None = None,
        loss_chunk_size: int | None = None,
        micro_batches: int = 1,
        **kwargs: Any,
    ) -> None:
        """Configure training; every argument has a default that fits the task.

        Args:
            optimizer: Adam at 1e-3, or 1e-2 for a bag, with gradients clipped to a
                global norm of 1.
            loss: The loss of the task.
            loss_weights: As for `keras.Model.compile`.
            metrics: The metrics of the task.
            remat: What the backward pass computes again, to save memory; the results
                are the same. "full": a block keeps its inputs alone. "activations": the
                products of its kernels and their inputs as well, but no attention
                weights, norms, activations or dropout masks. None: nothing.
            loss_chunk_size: Positions of which the logits exist at a time, for a model
                that predicts tokens, as a `GPT`; all if None. Results are the same.
            micro_batches: In how many parts the gradient of a batch is computed, one
                after another, which takes the memory of one part. The update is that of
                the batch.
            **kwargs: As for `keras.Model.compile`. `jit_compile="auto"`, the default,
                is True on TensorFlow and JAX, also on a CPU.

        Raises:
            ValueError: If an argument is out of range or not for this model;
                `micro_batches` cannot be above 1 for several losses.
        """
        self.micro_batches = checks.size("micro_batches", micro_batches)
        if loss_chunk_size is not None:  # which `LossChunks` takes
            raise ValueError(
                "loss_chunk_size needs a model that predicts tokens one by one, such "
                f"as a GPT, received a {type(self).__name__}. Leave it out"
            )
        rematerialization.set_mode(self, remat)
        if optimizer is None:
            optimizer = self.default_optimizer()
        jit_compile = kwargs.pop("jit_compile", "auto")
        self._chosen = {
            "jit_compile": kernels.compiler() if jit_compile is True else jit_compile,
            "auto_scale_loss": kwargs.get("auto_scale_loss", True),
            **({} if remat is None else {"remat": remat}),
            **({} if micro_batches == 1 else {"micro_batches": micro_batches}),
        }
        if jit_compile == "auto":
            eager = kwargs.get("run_eagerly", False)
            jit_compile = kernels.default_jit_compile() and not eager
        loss = self.default_loss() if loss is None else loss
        # Not an attribute for Keras, which would list a loss twice.
        means = LossMeans(loss, loss_weights, self.output)
        means.check_accumulation(micro_batches, optimizer, self)
        vars(self)["loss_means"] = means
        super().compile(
            optimizer=optimizer,
            loss=loss,
            loss_weights=loss_weights,
            metrics=self.default_metrics() if metrics is None else metrics,
            jit_compile=jit_compile,
            **kwargs,
        )

    def fit(self, x: Any = None, y: Any = None, **kwargs: Any) -> Any:
        """Trains, as `keras.Model.fit`; an unknown argument is an error that names it.

        Args:
            x: Inputs, as for `keras.Model.fit`.
            y: Targets, as for `keras.Model.fit`.
            **kwargs: As for `keras.Model.fit`; and `patience`: epochs without a lower
                validation loss after which training stops, with the best weights.
        """
        check_names("fit", type(self).fit, FIT, kwargs)
        return super().fit(x, y, **with_early_stopping(**kwargs))

    def scores_of(self, x: Any, *, batch_size: int | None = None, **kwargs: Any) -> Any:
        """Computes what `predict` does, inside `trace` and `intervene` too.

        There the model is called in batches, uncompiled.

        Args:
            x: The inputs of the graph: arrays, or batches as a `keras.utils.PyDataset`.
            batch_size: Rows that are processed at once.
            **kwargs: As for `keras.Model.predict`.
        """
        return scoring.outputs_of(
            self, x, super().predict, batch_size, BATCH_SIZE, kwargs
        )

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """The metrics, with the loss first: its mean over all steps or rows.

        The losses of several outputs are the last.
        """
        means = vars(self).get("loss_means")
        return super().metrics if means is None else means.beside(super().metrics)

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        """Computes the loss of a batch, as `keras.Model.compute_loss`.

        Its mean over batches, `loss` and `val_loss`, weighs each by what its loss is a
        mean over, and so does not depend on the batch size; nor do the losses of
        several outputs.
        """
        sample_weight = self.counted(x, sample_weight)
        loss = super().compute_loss(x, y, y_pred, copied(sample_weight), training)
        return self.loss_means.add(self.loss, loss, y, y_pred, sample_weight)

    def predict(self, x: Any, batch_size: int | None = None, **kwargs: Any) -> Any:
        """Computes the outputs, as `keras.Model.predict`.

        For arrays of 0 rows they are arrays of 0 rows. NaN and infinity in arrays are
        an error.

        Args:
            x: Inputs, as for `keras.Model.predict`.
            batch_size: Rows that are processed at once.
            **kwargs: As for `keras.Model.predict`.
        """
        return self.scores_of(x, batch_size=batch_size, **kwargs)

    def predict_on_batch(self, x: Any) -> Any:
        """Computes the outputs of one batch, as `keras.Model.predict_on_batch`."""
        return kernels.unrepeated(super().predict_on_batch(x), x)

    def evaluate(self, x: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Evaluates, as `keras.Model.evaluate`; no rows are an error.

        Args:
            x: Inputs, as for `keras.Model.evaluate`.
            *args: As for `keras.Model.evaluate`.
            **kwargs: As for `keras.Model.evaluate`.
        """
        check_not_empty(x, "evaluate")
        check_data(x)
        return super().evaluate(x, *args, **kwargs)

    def compute_metrics(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None
    ) -> dict[str, Any]:
        """Updates the metrics, as `keras.Model.compute_metrics`."""
        sample_weight = self.counted(x, sample_weight)
        return super().compute_metrics(x, y, y_pred, copied(sample_weight))

    def counted(self, x: Any, sample_weight: Any) -> Any:
        """Returns the weights in loss and metrics, such as 0 for steps of padding.

        Args:
            x: The inputs of a batch.
            sample_weight: Weights of the user, or None.
        """
        return sample_weight

    def _compile_later(self, args, kwargs):
        """Keeps the arguments of `compile` until the labels are learned.

        As an attribute for Keras, their metrics would be those of the model twice.
        """
        vars(self)["_compile_arguments"] = args, kwargs

    def train_step(self, *args: Any) -> Any:
        """The step of training, as Keras makes it; on several devices, and in parts."""
        return kernels.train_step(self, super().train_step, self.micro_batches, *args)

    def test_step(self, *args: Any) -> Any:
        """The step of evaluation, as Keras makes it; on several devices."""
        return kernels.evaluation_step(self, super().test_step, *args)

    def predict_step(self, *args: Any) -> Any:
        """The step of prediction, as Keras makes it; on several devices."""
        return kernels.predict_step(super().predict_step, *args)

    def make_train_function(self, force: bool = False) -> Callable[..., Any] | None:
        """The step of training, as Keras makes it.

        A step that makes variables is traced twice by TensorFlow. Those of the
        optimizer are made before.
        """
        kernels.divide_weights(self, rematerialization.blocks_of)
        self._build_optimizer()
        return super().make_train_function(force or self._has_changed("train"))

    def make_test_function(self, force: bool = False) -> Callable[..., Any] | None:
        """The step of evaluation, as Keras makes it; a new one for changed layers."""
        return super().make_test_function(force or self._has_changed("test"))

    def make_predict_function(self, force: bool = False) -> Callable[..., Any] | None:
        """The step of prediction, as Keras makes it; a new one for changed layers."""
        return super().make_predict_function(force or self._has_changed("predict"))

    def _has_changed(self, step):
        """Whether layers have changed since this was asked before for a step."""
        changed = []
        kernels.programs(self).get("keras", step, lambda: changed.append(True))
        return bool(changed)

    def get_compile_config(self) -> Config | None:
        """Settings to save, as the user chose them, with nothing of this backend.

        The optimizer gets its variables, which loading expects.
        """
        if not self.compiled:  # before `fit` has learned what the layers need
            return None
        self._build_optimizer()
        return {**public_optimizers(super().get_compile_config()), **self._chosen}

    def _build_optimizer(self):
        if not self.optimizer.built:
            self.optimizer.build(self.trainable_variables)

    def compile_from_config(self, config: Config) -> None:
        """Compile a loaded model as it was; Keras leaves that to an own `compile`."""
        config = portable_settings({"compile_config": config})["compile_config"]
        chosen = config.get("jit_compile")
        if isinstance(chosen, str):  # the name of a compiler is a choice for it alone
            config["jit_compile"] = True if chosen == kernels.compiler() else "auto"
        self.compile(**keras.saving.deserialize_keras_object(config))
        if isinstance(chosen, str):
            self._chosen["jit_compile"] = chosen
        self._build_optimizer()

    def default_optimizer(self) -> keras.optimizers.Optimizer:
        return keras.optimizers.Adam(1e-3, global_clipnorm=1.0)

    def default_loss(self) -> keras.losses.Loss | str | None:
        raise NotImplementedError(f"{type(self).__name__} must define default_loss")

    def default_metrics(self) -> Sequence[keras.metrics.Metric | str]:
        return []

    def save_own_variables(self, store: Any) -> None:
        """Save the state of the seed generators, of which layers save none."""
        super().save_own_variables(store)
        for n, state in enumerate(self._seeds()):
            store[f"seed_{n}"] = state

    def load_own_variables(self, store: Any) -> None:
        """Load the state of the seed generators, if the file has any."""
        names = [name for name in store.keys() if not name.startswith("seed_")]  # noqa: SIM118
        super().load_own_variables({name: store[name] for name in names})
        for n, state in enumerate(self._seeds()):
            if f"seed_{n}" in store.keys():  # noqa: SIM118
                state.assign(np.array(store[f"seed_{n}"]))

    def _seeds(self):
        """The states of seed generators: integers that are no weights."""
        weights = {id(weight) for weight in self.weights}
        others = [v for v in self.variables if id(v) not in weights]
        return [v for v in others if not keras.backend.is_float_dtype(v.dtype)]

    def get_config(self) -> Config:
        """The arguments, and what was set on the layers since; see `core.sublayers`."""
        plain = {name: as_plain(value) for name, value in self._arguments.items()}
        return {
            "name": self.name,
            "trainable": self.trainable,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            sublayers.KEY: sublayers.settings_of(self),
            **plain,
        }

    @classmethod
    def from_config(
        cls, config: Config, custom_objects: dict[str, Any] | None = None
    ) -> Self:
        """Make the model again, of the dtype that it had, whatever is the default."""
        config = dict(config)
        settings = config.pop(sublayers.KEY, None)
        with sublayers.default_policy(config.pop("dtype", None)):
            model = cls(**{name: from_plain(value) for name, value in config.items()})
        if settings is not None:
            sublayers.apply_settings(model, settings)
            adapters.restore(model)
        return model

    def quantize(
        self,
        mode: str | None = None,
        config: Any = None,
        filters: str | Sequence[str] | Callable[[keras.Layer], bool] | None = None,
        **kwargs: Any,
    ) -> None:
        """Rounds weights to few bits, as `keras.Model.quantize`; "nf4" is ours.

        With "nf4" the kernels of the dense layers of kerasseq have 4.127 bits a weight,
        those of a new head and of embeddings stay. The optimizer starts anew.

        Args:
            mode: "nf4", or "int8", "int4" or another mode of Keras.
            config: As for Keras; None for "nf4".
            filters: As for Keras: patterns of names, or a function of a layer.
            **kwargs: As for `keras.Model.quantize`.

        Raises:
            ValueError: If no layer has a float kernel to round, or a `config` is given
                for "nf4"; for other modes if there is an adapter with dropout.
        """
        if mode == quantized.NF4:
            quantized.to_nf4(self, config, filters)
        else:
            quantized.check_no_dropout(self)
            super().quantize(mode, config=config, filters=filters, **kwargs)

    def enable_lora(
        self,
        rank: int | Mapping[str, int],
        target_layer_names: str | Sequence[str] | None = None,
        *,
        lora_alpha: float | None = None,
        lora_dropout: float = 0.0,
    ) -> None:
        r"""Adds an adapter to dense layers, and trains only it and a new head.

        A layer computes $x W + b + \frac{\alpha}{r} (x A) B$; B is 0 at first. The
        optimizer starts anew. Use a rate 5 to 10 times that of training all weights.

        Args:
            rank: r; or ranks by name or pattern of layers.
            target_layer_names: Names of layers, or patterns of their paths such as
                "block_0/*"; "all-linear" for all dense layers but those of a new head.
                Defaults to "query" and "value", or all if there are none.
            lora_alpha: $\alpha$. Defaults to the rank, so that the factor is 1.
            lora_dropout: Fraction of the inputs of A that is dropped in training.

        Raises:
            ValueError: If there is an adapter, no layer has the name, or the rank is
                above the width.
        """
        adapters.enable(self, rank, target_layer_names, lora_alpha, lora_dropout)

    def merge_lora(self) -> None:
        """Adds what the active adapter learned to the kernels, and takes it off.

        The model computes the same, without the cost of an adapter. Other adapters,
        which were made for the kernels before, are forgotten.

        Raises:
            ValueError: If there is no adapter, or a layer is quantized.
        """
        adapters.merge(self)

    def set_adapter(self, name: str | None) -> None:
        """Activates another adapter, with its head; with None the model has none.

        Args:
            name: The name; "default" for that of `enable_lora` or a `.keras` file.
        """
        adapters.activate(self, name)

    @property
    def adaptable_layers(self) -> list[keras.Layer]:
        """The layers that `enable_lora` can adapt: dense ones, but for a new head."""
        return [*adapters.dense_layers(self).values()]

    @property
    def active_adapter(self) -> str | None:
        """The name of the adapter in the layers, or None."""
        return adapters.adapters_of(self).active

    def save_lora_weights(self, path: FilePath, format: str | None = None) -> None:
        """Writes the active adapter, with a new head, for kerasseq or for PEFT.

        Args:
            path: A file that ends in ".safetensors"; or a new folder, as a name without
                such an ending, which PEFT reads: for the models of `save_pretrained`.
            format: "peft" for a folder whose name has a dot.

        Raises:
            FileExistsError: If the folder exists and is not empty.
            TypeError: If the model is of a class that Hugging Face does not have.
            ValueError: If there is no adapter, or Hugging Face has no such model.
        """
        adapter_files.save(self, path, format)

    def load_lora_weights(self, path: FilePath, name: str = "default") -> None:
        """Reads an adapter of a model like this one, and activates it.

        Args:
            path: A file of `save_lora_weights`, a folder of PEFT, or a file of
                KerasHub's `save_lora_weights`, which ends in ".lora.h5".
            name: Its name for `set_adapter`.

        Raises:
            FileNotFoundError: If there is no such file, or the folder lacks one.
            ImportError: If the package safetensors is needed and not installed.
            TypeError: If Hugging Face or KerasHub has no such class of models.
            ValueError: If the file is damaged, of another model, or has what kerasseq
                does not have; or the name is taken.

        Examples:
            >>> import tempfile, kerasseq
            >>> sizes = {"num_layers": 1, "num_heads": 1, "hidden_dim": 6}
            >>> model = kerasseq.models.GPT(vocabulary_size=5, **sizes)
            >>> model.enable_lora(2)
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     model.save_lora_weights(f"{folder}/adapter")
            ...     model.load_lora_weights(f"{folder}/adapter", name="mine")
        """
        adapters.add(self, name, adapter_files.load(self, path))
