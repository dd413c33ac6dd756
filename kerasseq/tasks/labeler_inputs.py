"""The arguments of classifier and tagger, checked, and their input layers."""

from typing import Any

from kerasseq.core import checks
from kerasseq.core.types import Config
from kerasseq.tasks import text_inputs
from kerasseq.tasks.base import check_sizes, embedding_width, sequence_input
from kerasseq.tasks.labels import Labels


def check_arguments(arguments: Config, least_labels: int) -> None:
    """Raises if an argument is wrong, whether or not the layers can be built yet."""
    arguments["bidirectional"] = checks.flag(
        "bidirectional", arguments["bidirectional"]
    )
    arguments["dropout"] = checks.rate("dropout", arguments["dropout"])
    if arguments["labels"] is not None:
        Labels(arguments["labels"], at_least=least_labels)
    if arguments["mask_value"] is not None:
        checks.number("mask_value", arguments["mask_value"])
    tokenizer = text_inputs.check_tokenizer(arguments["tokenizer"])
    arguments["tokenizer"], sizes = tokenizer, ("vocabulary_size", "features")
    given = {name: arguments[name] for name in sizes if arguments[name] is not None}
    if tokenizer is not None and given:
        raise ValueError(
            "expected one of tokenizer, for texts, vocabulary_size, for ids, and "
            f"features, for vectors; received a tokenizer and {given}"
        )


def input_layers(arguments: Config) -> tuple[Any, Any]:
    """Returns the input of the model, and its vectors `(batch, time, width)`."""
    size, units = arguments["vocabulary_size"], arguments["units"]
    padding = 0
    if arguments["tokenizer"] is not None:
        padding = arguments["tokenizer"].vocabulary_size
        size = padding + 1
    features = arguments["features"]
    width = embedding_width(arguments["embedding_dim"], units)
    rows = {"vocabulary_size": size, "features": features}
    architecture, num_layers = arguments["architecture"], arguments["num_layers"]
    check_sizes(architecture, units, num_layers, width, rows)
    return sequence_input(size, features, width, arguments["mask_value"], padding)
