"""What the models of all tasks share: inputs, saving, and how they compile."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import keras

from kerasseq import kernels
from kerasseq.core import checks, synonyms
from kerasseq.core.arguments import check_names, check_not_of_fit
from kerasseq.core.layouts import layout_map
from kerasseq.core.types import Config
from kerasseq.tasks import (
    adapter_files,
    adapters,
    fit_call,
    loss_chunks,
    loss_means,
    quantized,
    rematerialization,
    saving,
    scoring,
)
from kerasseq.tasks.fit_call import FitCall, check_ready, needs_fit
from kerasseq.tasks.input_rows import are_batches, check_data, check_not_empty
from kerasseq.training.batches import BATCH_SIZE, KerasData, TrainingRows


@needs_fit
class TaskModel(keras.Model):
    """A functional model that is saved as the arguments it was made from.

    A subclass builds its graph in `__init__`, hands inputs, outputs and its arguments
    over, and sets `default_loss` and `default_metrics`. One whose layers depend on data
    sets `awaits_fit` until `fit` builds them.

    Attributes:
        fit_options: Arguments of `fit` that this kind of model alone has.
        evaluate_options: The same of `evaluate`.
        predict_options: The same of `predict`.
    """

    awaits_fit: bool = False
    default_batch_size: int = BATCH_SIZE
    fit_options: tuple[str, ...] = ()
    evaluate_options: tuple[str, ...] = ()
    predict_options: tuple[str, ...] = ()
    held_out: Any = None  # what `fit` validates on, prepared
    divides_weights: bool = True  # among devices
    loss_means: Any  # a `LossMeans`
    loss_chunks: Any = None  # `Chunks`, or None to compute all logits at once
    token_head: Any = None  # a `TokenHead`, or None
    micro_batches: int = 1  # in which the gradient of a batch is computed
    get_layout_map: "classmethod[Any, ..., Any]" = classmethod(layout_map)
    enable_lora: Callable[..., Any] = adapters.enable_lora
    merge_lora: Callable[..., Any] = adapters.merge_lora
    set_adapter: Callable[..., Any] = adapters.set_adapter
    adaptable_layers: property = property(adapters.adaptable_layers)
    active_adapter: property = property(adapters.active_adapter)
    save_lora_weights: Callable[..., Any] = adapter_files.save_lora_weights
    load_lora_weights: Callable[..., Any] = adapter_files.load_lora_weights
    quantize: Callable[..., None] = quantized.quantize
    predict: Callable[..., Any] = scoring.predict
    export: Callable[..., None] = saving.export
    _compile_arguments: tuple[Any, Any] = ((), {})
    if not TYPE_CHECKING:  # a checker would take each name for an attribute
        __getattr__ = checks.attribute_hints(keras.Model, synonyms.METHODS)

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
        check_not_of_fit(type(self), options)
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
        """Configures training; every argument has a default that fits the task.

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
                that predicts tokens, as a `GPT` or a `T5`; all if None. Results are the
                same.
            micro_batches: In how many parts the gradient of a batch is computed, one
                after another, which takes the memory of one part. The update is that of
                the batch.
            **kwargs: As for `keras.Model.compile`. `jit_compile="auto"`, the default,
                is True on TensorFlow and JAX, also on a CPU.

        Raises:
            ValueError: If an argument is out of range or not for this model;
                `micro_batches` is 1 for several losses by name or of functions.
        """
        self.micro_batches = checks.size("micro_batches", micro_batches)
        loss = self.default_loss() if loss is None else loss
        metrics = self.default_metrics() if metrics is None else metrics
        chunks = None
        if loss_chunk_size is not None:
            weighted = kwargs.pop("weighted_metrics", None)
            chunks = loss_chunks.Chunks(self, loss_chunk_size, loss, metrics, weighted)
            loss, metrics = chunks.loss, []
        rematerialization.set_mode(self, remat)
        optimizer = self.default_optimizer() if optimizer is None else optimizer
        jit_compile = kwargs.pop("jit_compile", "auto")
        self._chosen = saving.chosen_settings(
            jit_compile, kwargs, remat, micro_batches, chunks
        )
        if jit_compile == "auto":
            eager = kwargs.get("run_eagerly", False)
            jit_compile = kernels.default_jit_compile() and not eager
        means = loss_means.LossMeans(loss, loss_weights, self.output)
        means.check_accumulation(micro_batches, optimizer, self)
        # Not attributes for Keras, which would list a loss or metric twice.
        vars(self).update(loss_means=means, loss_chunks=chunks)
        super().compile(
            optimizer=optimizer,
            loss=loss,
            loss_weights=loss_weights,
            metrics=metrics,
            jit_compile=jit_compile,
            **kwargs,
        )

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        *,
        batch_size: int | None = None,
        epochs: int | None = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        sample_weight: Any = None,
        class_weight: str | Mapping[Any, float] | None = None,
        patience: int | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> keras.callbacks.History:
        """Trains the model.

        Args:
            x: The data: a list, a column, a table or a stream of what the class reads,
                such as texts. For a language model: a text, or several to be joined; a
                `pathlib.Path`; `TokenShards`; ids `(tokens,)`; prompts, with answers as
                `y`; or conversations, lists of messages `{"role": …, "content": …}` or
                a column "messages" of them; the loss is over answers alone. For pairs:
                sources, or both. For a `Forecaster`: a table, or windows `(rows, time,
                features)`. For BERT in pre-training: documents, lists of sentences.
                Keras reads arrays, and batches of them.
            y: Labels, targets or answers; None if `x` has them or needs none. For tags
                a list for each row; for spans pairs of indices of characters.
            batch_size: Rows in a batch; 32 if None, or 64 pairs. If `x` has batches,
                of the data for validation alone.
            epochs: The last epoch. None for 1; for as many as help, where a
                `Forecaster` reads a table.
            initial_epoch: Number of epochs trained before; their batches are skipped.
            steps_per_epoch: Batches in an epoch. All rows if None. If labels and
                tokenizer are known, it reads a stream of texts batch by batch.
            validation_split: Fraction of the data, from the end, for validation.
            validation_data: Other data, `(x, y)`, `(x, y, sample_weight)`, or in a form
                of `x`.
            sample_weight: Weight of each row.
            class_weight: Weight of each label, by label; "balanced": the same share.
            patience: Epochs without a lower validation loss after which training
                stops, with the best weights. Without data for validation it holds out
                15 %, of each class if rows have one, else from the end.
            seed: Seed of the order of the rows; 0 if None. Keras shuffles arrays.
            **kwargs: Others of `keras.Model.fit`, and those of a kind of models. With
                labels: `missing`, "skip" to drop rows with an empty cell (None, NaN, or
                "") with a warning, not an error. Language models: `sequence_length`,
                tokens of a block (64), between which no gradients flow. Pre-training:
                `sequence_length`, ids in a row; `masking`, a `MaskedLMMaskGenerator`.
                Images: `shift`, at random by a share of their size, and `flip`, every
                second one. A `Forecaster`: `value`, `date`, `group`, `missing`,
                `season` and `length`, as for `prepare`.

        Returns:
            The `keras.callbacks.History`.

        Raises:
            TypeError: If an argument is unknown, or data have the wrong type.
            ValueError: If data are empty, damaged or do not fit the model.
        """
        own = fit_call.own_options(self, "fit", self.fit_options, kwargs)
        batch_size = self.default_batch_size if batch_size is None else batch_size
        call = FitCall(
            x, y, sample_weight, class_weight, batch_size, epochs, initial_epoch,
            steps_per_epoch, validation_split, validation_data, patience, seed,
            own, kwargs,
        )  # fmt: skip
        source, arguments = fit_call.fit_arguments_of(self, call)
        if call.history is not None:
            return call.history
        check_ready(self, arguments["x"])
        vars(self)["held_out"] = fit_call.first_part(arguments["validation_data"])
        try:
            with self.training_on(call, source, arguments) as arguments:
                return super().fit(**arguments)
        finally:
            del vars(self)["held_out"]

    def training_data(self, call: FitCall) -> KerasData | TrainingRows:
        """Returns what `fit` trains on, and learns what the layers need of it."""
        return KerasData(call.x, call.y, call.sample_weight, call.class_weight)

    def held_out_data(self, call: FitCall) -> Any:
        """Returns the data to validate on, or to evaluate, as Keras reads them."""
        x = fit_call.first_part(call.validation_data)
        check_not_empty(x, call.method)
        check_data(x)
        return call.validation_data

    def training_on(
        self, call: FitCall, source: Any, arguments: dict[str, Any]
    ) -> contextlib.AbstractContextManager[dict[str, Any]]:
        """Returns a context in which Keras trains, and the arguments of its `fit`.

        Args:
            call: The arguments of `fit`.
            source: The batches or arrays.
            arguments: The arguments, of which `x` streams the batches.
        """
        return contextlib.nullcontext(arguments)

    def evaluating_on(
        self, arguments: dict[str, Any]
    ) -> contextlib.AbstractContextManager[dict[str, Any]]:
        """Returns a context in which Keras evaluates, as `training_on`."""
        return contextlib.nullcontext(arguments)

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        *,
        sample_weight: Any = None,
        steps: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """Computes loss and metrics: those of `fit(validation_data=(x, y))`.

        Args:
            x: The data, as for `fit`. A text is read in whole blocks; `cross_entropy`
                counts every token. Of a table all windows count, and the loss is that
                of scaled values; `backtest` has errors in the unit of the series.
            y: As for `fit`.
            batch_size: Rows in a batch; that of `fit` if None.
            sample_weight: Weight of each row.
            steps: Number of batches, for a stream without an end.
            **kwargs: Others of `keras.Model.evaluate`, and some of `fit`. With labels:
                `missing`. Language models: `sequence_length`, the most tokens of a
                block; those of shards, if fewer. Pre-training: `sequence_length` and
                `masking`.

        Raises:
            TypeError: If an argument is unknown, or data have the wrong type.
            ValueError: If data are empty, damaged or do not fit the model.
        """
        own = fit_call.own_options(self, "evaluate", self.evaluate_options, kwargs)
        size = self.default_batch_size if batch_size is None else batch_size
        if x is None or x is not self.held_out:  # `fit` has prepared its own
            call = FitCall.of_evaluation((x, y, sample_weight), size, steps, own)
            x, y, sample_weight = fit_call.prepared(self, call)
            check_ready(self, x)
        arguments = {"x": x, "y": y, "sample_weight": sample_weight, "steps": steps}
        arguments["batch_size"] = None if are_batches(x) else size
        with self.evaluating_on({**arguments, **kwargs}) as arguments:
            return super().evaluate(**arguments)

    def predicted(self, call: FitCall, outputs: Callable[..., Any]) -> Any:
        """Returns the predictions for data in any form.

        Args:
            call: The call of `predict`.
            outputs: Function from inputs of the graph, or rows, to the outputs.
        """
        return outputs(call.x)

    def scores_of(self, x: Any, *, batch_size: int | None = None, **kwargs: Any) -> Any:
        """Computes what `predict` does, in `trace` and `intervene` too, uncompiled.

        Args:
            x: The inputs of the graph: arrays, or batches as a `keras.utils.PyDataset`.
            batch_size: Rows that are processed at once.
            **kwargs: As for `keras.Model.predict`.
        """
        check_ready(self, x)
        size = batch_size, BATCH_SIZE
        return scoring.outputs_of(self, x, super().predict, *size, kwargs)

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """The metrics, with the loss first: its mean over all steps or rows.

        The losses of several outputs are the last.
        """
        metrics, means = super().metrics, vars(self).get("loss_means")
        metrics = metrics if means is None else means.beside(metrics)
        return [*metrics, *loss_means.metrics_of(self)]

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        """Computes the outputs; hidden states in a step with `loss_chunk_size`."""
        if loss_means.returns_hidden(self):
            return self.loss_chunks.hidden(inputs, training=training, mask=mask)
        return super().call(inputs, training=training, mask=mask)

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
        if loss_means.returns_hidden(self):
            y_pred = self.loss_chunks.losses(y, y_pred, sample_weight)
        weights = loss_means.copied(sample_weight)
        loss = super().compute_loss(x, y, y_pred, weights, training)
        return self.loss_means.add(self.loss, loss, y, y_pred, sample_weight)

    def predict_on_batch(self, x: Any) -> Any:
        """Computes the outputs of one batch, as `keras.Model.predict_on_batch`."""
        return kernels.unrepeated(super().predict_on_batch(x), x)

    def compute_metrics(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None
    ) -> dict[str, Any]:
        """Updates the metrics, as `keras.Model.compute_metrics`."""
        sample_weight = self.counted(x, sample_weight)
        return super().compute_metrics(x, y, y_pred, loss_means.copied(sample_weight))

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
        """Runs Keras' step of training; on several devices, and in parts."""
        with loss_means.in_step(self):
            step, parts = super().train_step, self.micro_batches
            return kernels.train_step(self, step, parts, *args)

    def test_step(self, *args: Any) -> Any:
        """Runs Keras' step of evaluation; on several devices."""
        with loss_means.in_step(self):
            return kernels.evaluation_step(self, super().test_step, *args)

    def predict_step(self, *args: Any) -> Any:
        """Runs Keras' step of prediction; on several devices."""
        return kernels.predict_step(super().predict_step, *args)

    def make_train_function(self, force: bool = False) -> Callable[..., Any] | None:
        """Returns Keras' function of a training step.

        A step that makes variables is traced twice by TensorFlow. Those of the
        optimizer are made before.
        """
        kernels.divide_weights(self, rematerialization.blocks_of)
        self._build_optimizer()
        return super().make_train_function(force or self._has_changed("train"))

    def make_test_function(self, force: bool = False) -> Callable[..., Any] | None:
        """Returns Keras' function of evaluation; a new one for changed layers."""
        return super().make_test_function(force or self._has_changed("test"))

    def make_predict_function(self, force: bool = False) -> Callable[..., Any] | None:
        """Returns Keras' function of prediction; a new one for changed layers."""
        return super().make_predict_function(force or self._has_changed("predict"))

    def _has_changed(self, step):
        """Returns whether layers have changed since the last call for a step."""
        changed, made = [], kernels.programs(self)
        devices = keras.distribution.distribution()  # a step of JAX is compiled for
        made.get(f"keras {step}", devices, lambda: changed.append(True), kept=1)
        return bool(changed)

    def get_compile_config(self) -> Config | None:
        """Returns the settings to save as the user chose them, on any backend.

        The optimizer gets its variables, which loading expects.
        """
        if not self.compiled:  # before `fit` has learned what the layers need
            return saving.awaiting_settings(*self._compile_arguments)
        self._build_optimizer()
        return saving.saved_settings(super().get_compile_config(), self._chosen)

    def _build_optimizer(self):
        kernels.build_optimizer(self)
        self._finish_loading()

    def _finish_loading(self):
        """Does what a file of an older version needs after its optimizer was loaded."""
        after_loading = vars(self).pop("after_loading", None)
        if after_loading is not None:
            after_loading()

    def compile_from_config(self, config: Config) -> None:
        """Compiles a loaded model as it was; Keras leaves that to an own `compile`."""
        options, compiler = saving.restored_settings(config)
        self.compile(**options)
        if not self.awaits_fit:
            self._chosen |= compiler
            self._build_optimizer()

    def default_optimizer(self) -> keras.optimizers.Optimizer:
        return keras.optimizers.Adam(1e-3, global_clipnorm=1.0)

    def default_loss(self) -> keras.losses.Loss | str | None:
        raise NotImplementedError(f"{type(self).__name__} must define default_loss")

    def default_metrics(self) -> Sequence[keras.metrics.Metric | str]:
        return []

    def save_own_variables(self, store: Any) -> None:
        """Saves the state of the seed generators, of which layers save none."""
        super().save_own_variables(store)
        saving.save_seeds(self, store)

    def load_own_variables(self, store: Any) -> None:
        """Loads the state of the seed generators, if the file has any."""
        super().load_own_variables(saving.without_seeds(store))
        saving.load_seeds(self, store)

    def get_config(self) -> Config:
        """Returns the arguments, and later settings of layers; see `core.sublayers`."""
        return saving.config_of(self)

    @classmethod
    def from_config(
        cls, config: Config, custom_objects: dict[str, Any] | None = None
    ) -> Self:
        """Makes the model again, of the dtype that it had, whatever is the default."""
        return saving.model_of(cls, config)
