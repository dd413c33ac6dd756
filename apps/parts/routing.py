"""What the lab Experts computes: loads of experts, and who reads which character.

`prepare_experts.py` has trained models of 8 experts, for each number of chosen experts
and coefficient of the balance loss; others are trained on the page.
"""

import functools
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from labs.code import experts as code

FILE = pathlib.Path(__file__).parent.parent / "prepared" / "experts.npz"
CHOSEN, COEFFICIENTS = (1, 2), (0.0, 0.01, 0.1)
EXPERTS, STEPS, SEED = 8, 200, 0  # of the models that are prepared
IDLE = 0.01  # an expert with a smaller share of the choices
LAST = 10  # measurements at the end of the training, over which loads are averaged


class Settings(NamedTuple):
    """How a model is made and trained."""

    num_experts: int = EXPERTS
    top_k: int = 1
    coefficient: float = 0.01
    steps: int = STEPS
    seed: int = SEED

    def is_prepared(self) -> bool:
        """Whether the file has this model."""
        found = self.num_experts, self.steps, self.seed
        return found == (EXPERTS, STEPS, SEED)

    def name(self) -> str:
        """Returns the part of the names of its arrays in the file.

        Examples:
            >>> Settings().name()
            '1_0.01'
        """
        return f"{self.top_k}_{self.coefficient}"


@functools.lru_cache(maxsize=24)
def run(settings: Settings) -> tuple[Any, np.ndarray, np.ndarray]:
    """Returns a model with its loads `(n, E)` and losses `(n,)`.

    The model is that of the file, or is trained.
    """
    if not settings.is_prepared():
        return code.train(*settings)
    model, name = code.make(*settings[:3]), settings.name()
    with np.load(FILE) as arrays:
        weights = [arrays[f"{name}_{n}"] for n in range(len(model.weights))]
        curves = arrays[f"loads_{name}"], arrays[f"losses_{name}"]
    model.set_weights([weight.astype("float32") for weight in weights])
    return model, *curves


def curves(*settings: Any) -> dict[str, np.ndarray]:
    """Returns the loads of the experts `(n, E)` and the losses `(n,)` by step.

    Args:
        *settings: Those of `Settings`.
    """
    _, loads, losses = run(Settings(*settings))
    return {"step": code.EVERY * np.arange(len(loads)), "load": loads, "loss": losses}


def busiest(loads: np.ndarray) -> float:
    """Returns the largest load, averaged over the end of the training.

    Args:
        loads: `(n, E)`.

    Examples:
        >>> round(busiest(np.array([[0.5, 0.5], [0.2, 0.8]])), 2)
        0.65
    """
    return float(loads[-LAST:].max(axis=1).mean())


def read(text: str, *settings: Any) -> np.ndarray:
    """Returns the gate with which each expert reads each character.

    Args:
        text: At most 64 characters.
        *settings: Those of `Settings`.

    Returns:
        `(E, T)`, NaN where an expert does not read the character.
    """
    made = Settings(*settings)
    model, *_ = run(made)
    [chosen], [gates] = code.read(model, model.tokenizer.encode(text)[None])
    found = np.full((made.num_experts, len(text)), np.nan)
    found[chosen.T, np.arange(len(text))] = gates.T
    return found


def counted(*settings: Any) -> dict[str, Any]:
    """Counts who reads what in text on which the model was not trained.

    Args:
        *settings: Those of `Settings`.

    Returns:
        "counts", how often each expert reads each of the "characters", `(E, V)`;
        "load" of each expert; and "told", how often the first expert is the one
        that reads this character most often.
    """
    made = Settings(*settings)
    model, *_ = run(made)
    _, ids = code.reference(model)
    ids = ids[:, :-1]
    chosen, _ = code.read(model, ids)
    size = len(model.tokenizer.vocabulary)
    counts = _counts(chosen, np.broadcast_to(ids[..., None], chosen.shape), made, size)
    first = _counts(chosen[..., 0], ids, made, size)
    return {
        "counts": counts,
        "characters": list(model.tokenizer.vocabulary),
        "load": counts.sum(axis=1) / counts.sum(),
        "told": float(first.max(axis=0).sum() / first.sum()),
    }


def _counts(chosen, ids, settings, size):
    """How often an expert reads an id, `(E, V)`."""
    found = np.zeros((settings.num_experts, size), int)
    np.add.at(found, (chosen.ravel(), ids.ravel()), 1)
    return found


def most_read(
    counts: np.ndarray, characters: Sequence[str], number: int = 6
) -> list[tuple[str, float]]:
    """Returns what an expert reads most often, with the share of all that it reads.

    Args:
        counts: How often it reads each character `(V,)`.
        characters: The characters.
        number: How many at most.

    Examples:
        >>> most_read(np.array([1, 0, 3]), "abc")
        [('c', 0.75), ('a', 0.25)]
    """
    best = np.argsort(-counts, kind="stable")[:number]
    return [(characters[n], float(counts[n] / counts.sum())) for n in best if counts[n]]
