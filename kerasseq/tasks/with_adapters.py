"""The methods of a model for adapters: LoRA, saved, loaded, switched and merged."""

from collections.abc import Mapping, Sequence

from kerasseq.core.types import FilePath
from kerasseq.tasks import adapter_files, adapters


class WithAdapters:
    """A model whose dense layers can be adapted by LoRA: a mixin."""

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
