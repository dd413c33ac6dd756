"""How a model was compiled, as its file has it."""

from typing import Any

import keras

from kerasseq import kernels
from kerasseq.core.portable import portable_settings
from kerasseq.core.types import Config


def restored(config: Config) -> tuple[dict[str, Any], Config]:
    """Returns the arguments of `compile`, and the choice of another compiler.

    Args:
        config: As `get_compile_config` returns it, of any backend.
    """
    config = portable_settings({"compile_config": config})["compile_config"]
    chosen = config.get("jit_compile")
    of_compiler = {}
    if isinstance(chosen, str):  # the name of a compiler is a choice for it alone
        config["jit_compile"] = True if chosen == kernels.compiler() else "auto"
        of_compiler = {"jit_compile": chosen}
    return keras.saving.deserialize_keras_object(config), of_compiler
