"""Names of JAX and Keras that are not public: all that kerasseq uses, and why.

Each function says which name it reads, in which versions it is known, and what happens
without it. The tests run each of them without its name.
"""

from typing import Any

import jax
import keras


def exchange(key: str, value: str, seconds: float) -> list[str]:
    """Returns the values that all processes have given for a key.

    Name: `jax._src.distributed.global_state.client`.
    Known in: JAX 0.4.30 to 0.10.
    Why: A process that sums or gathers while the others do something else is ended by
        its network library, without an error of Python. Those that wait for a value
        are not, and they wait no longer than they are told to.
    Without it: The own value is returned for each process, and nothing is compared.

    Args:
        key: A name, used once.
        value: The value of this process.
        seconds: How long the others are waited for.

    Raises:
        TimeoutError: If one of them gives none.
    """
    count, here = jax.process_count(), jax.process_index()
    client = _client()
    if client is None:
        return [value] * count
    client.key_value_set(f"{key}/{here}", value)
    try:
        return [
            client.blocking_key_value_get(f"{key}/{n}", int(seconds * 1000))
            for n in range(count)
        ]
    except RuntimeError as error:
        raise TimeoutError(str(error)) from error


def forget(key: str) -> None:
    """Deletes the value of this process, which all of them have read; see `exchange`.

    Name: `jax._src.distributed.global_state.client`.
    Known in: JAX 0.4.30 to 0.10.
    Why: Otherwise those of a long training add up.
    Without it: There is no value.
    """
    client = _client()
    if client is not None:
        client.key_value_delete(f"{key}/{jax.process_index()}")


def _client() -> Any:
    """Returns what connects the processes, or None."""
    try:
        from jax._src.distributed import global_state
    except ImportError:
        return None
    return getattr(global_state, "client", None)


def place(variable: keras.Variable, cls: type, layout: Any, value: Any) -> None:
    """Gives a variable another class, layout and value.

    Name: `keras.Variable._layout`, `_value`.
    Known in: Keras 3.0 to 3.15.
    Why: A weight that was divided among processes is put together in one of them.
    Without it: An error says so.

    Args:
        variable: The variable.
        cls: Its class from then on.
        layout: How its values are divided; None for a value of this process.
        value: An array, or None for one that has none.

    Raises:
        RuntimeError: If Keras keeps its layout elsewhere.
    """
    if not {"_layout", "_value"} <= vars(variable).keys():
        raise RuntimeError(
            "weights that processes divide cannot be put together with Keras "
            f'{keras.__version__}. Leave parallel="model" out'
        )
    variable.__class__ = cls
    vars(variable).update(_layout=layout, _value=None)
    if value is not None:
        variable.assign(value)
