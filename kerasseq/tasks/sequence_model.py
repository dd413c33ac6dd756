"""What classifier and tagger share: an architecture by name between ids and labels."""

from typing import Any

import keras
import numpy as np

from kerasseq.core import checks
from kerasseq.core.dense import Dense
from kerasseq.core.serialization import scores_dtype
from kerasseq.core.types import Config
from kerasseq.tasks.architectures import BAG, build_layers, first_output
from kerasseq.tasks.bag import LEARNING_RATE, BagPreprocessor, bag_layers, check_bag
from kerasseq.tasks.base import TaskModel
from kerasseq.tasks.heads import Head
from kerasseq.tasks.labeled_model import LabeledModel
from kerasseq.tasks.preprocessor import SequencePreprocessor
from kerasseq.tasks.sequence_layers import (
    DEFAULT_POOLING,
    POOLING_OF_TEXTS,
    move_padding_last,
    pooling_layer,
)

PADDING = "padding_id"  # in files


class SequenceModel(LabeledModel):
    """The base of `SequenceClassifier` and `SequenceTagger`.

    If the labels or the tokenizer are to be learned from data, `fit` builds the layers.

    Args:
        arguments: The arguments of the subclass by name.
        **kwargs: `name` and `trainable`.
    """

    divides_weights: bool = False

    task: Head
    preprocessor: SequencePreprocessor

    def __init__(self, arguments: Config, **kwargs: Any) -> None:
        arguments["bidirectional"] = checks.flag(
            "bidirectional", arguments["bidirectional"]
        )
        arguments["dropout"] = checks.rate("dropout", arguments["dropout"])
        if arguments["mask_value"] is not None:
            checks.number("mask_value", arguments["mask_value"])
        task = self.head_of(arguments)
        preprocessor = _preprocessor(arguments, task.per_step)
        if not task.is_waiting and not preprocessor.is_waiting:
            self.build_layers(arguments, kwargs)
            return
        self.await_fit(arguments, kwargs)
        self.task, self.preprocessor = task, preprocessor

    def head_of(self, arguments: Config) -> Head:
        """Returns the head of a model with these arguments."""
        raise NotImplementedError

    def build_layers(self, arguments: Config, options: dict[str, Any]) -> None:
        self.task = self.head_of(arguments)
        self.preprocessor = _preprocessor(arguments, self.per_step)
        inputs, x = self.preprocessor.layers()
        if arguments["architecture"] == BAG:
            for layer in bag_layers(arguments["dropout"]):
                x = layer(x)
            arguments = {**arguments, "pooling": "mean"}
        else:
            x, arguments = self._outputs_of_layers(x, arguments)
        # Probabilities and losses are float32 in mixed precision as well.
        scores = Dense(
            self.task.labels.count,
            activation=arguments["activation"],
            dtype=scores_dtype(),
            name="output",
        )(x)
        outputs = self.answers_of(scores, arguments)
        TaskModel.__init__(self, inputs, outputs, arguments, **options)

    def _outputs_of_layers(self, x, arguments):
        """Returns the input of the last layer, and the arguments with the pooling."""
        default = POOLING_OF_TEXTS if arguments["tokenizer"] else DEFAULT_POOLING
        pooling = arguments.get("pooling") or default
        for layer in build_layers(
            arguments["architecture"],
            units=arguments["units"],
            num_layers=arguments["num_layers"],
            bidirectional=arguments["bidirectional"],
            dropout=arguments["dropout"],
            return_sequences=self.per_step or pooling != "last",
        ):
            x = first_output(layer(x))
        if self.per_step and len(x.shape) != 3:
            raise ValueError(
                "SequenceTagger needs a layer with outputs (batch, time, units), "
                f"received {layer.name} with {x.shape}: build it with "
                "return_sequences=True"
            )
        if self.per_step:
            return x, arguments
        if len(x.shape) == 2:
            pooling = _nothing_to_pool(arguments["pooling"], layer, x)
        elif len(x.shape) == 3:
            x = pooling_layer(pooling)(x)
        return x, {**arguments, "pooling": pooling}

    def answers_of(self, scores: Any, arguments: Config) -> Any:
        """Returns the outputs of the model for the scores of the labels."""
        return scores

    def default_optimizer(self) -> keras.optimizers.Optimizer:
        if self._arguments["architecture"] != BAG:
            return super().default_optimizer()
        return keras.optimizers.Adam(LEARNING_RATE, global_clipnorm=1.0)

    def learned(self, x: Any, y: Any) -> Config:
        config = super().learned(x, y)
        if self.preprocessor.is_waiting:
            config["tokenizer"] = self.preprocessor.trained(x)
        return config

    @property
    def embedded(self) -> keras.KerasTensor:
        """The embeddings of the ids, a symbolic tensor of the model."""
        return self.get_layer("embedding").output

    def save_own_variables(self, store: Any) -> None:
        self._finish_loading()
        super().save_own_variables(store)
        if self.tokenizer is not None:
            store[PADDING] = np.array(self.padding_id)

    def load_own_variables(self, store: Any) -> None:
        """Loads a file, also one of the time when ids were the tokenizer's plus 1."""
        names = list(store.keys())
        if self.tokenizer is not None and PADDING not in names and self.layers:
            self.get_layer("embedding").loads_padding_first = True
            vars(self)["after_loading"] = self._move_optimizer_rows
        super().load_own_variables({n: store[n] for n in names if n != PADDING})

    def _move_optimizer_rows(self):
        """Moves those of an older file, in which the optimizer comes last."""
        move_padding_last(self.get_layer("embedding"), self.optimizer.variables)

    def move_padding_last(self) -> None:
        """Moves the rows of weights that were set in the order of older files."""
        if self.tokenizer is not None:
            embedding = self.get_layer("embedding")
            variables = [*self.variables, *self.optimizer.variables]
            move_padding_last(embedding, variables)


def _preprocessor(arguments, per_step):
    is_bag = check_bag(arguments, per_step)
    return (BagPreprocessor if is_bag else SequencePreprocessor)(arguments, per_step)


def _nothing_to_pool(pooling, layer, x):
    """Returns "last" for outputs of the last step alone; raises for another pooling."""
    if pooling not in (None, "last"):
        raise ValueError(
            "pooling needs a layer with outputs (batch, time, units), received "
            f'pooling="{pooling}" and {layer.name} with {x.shape}. It has nothing to '
            'pool: build it with return_sequences=True, or use pooling="last"'
        )
    return "last"
