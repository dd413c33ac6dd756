"""A loop over time whose values are recorded, changed, or differentiated.

A value can leave a compiled loop only as an output of the loop. So the listener of a
step collects what the cells record, and the outputs go to the recorder after the loop.
Interventions and the probes of `gradient_flow` change a value where it is recorded, in
the step. An intervention runs the steps in Python, since it may be any function.
"""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
from keras import ops, tree

from kerasseq import kernels
from kerasseq.core.types import Nested, Tensor
from kerasseq.tracing.compiled_calls import check_eager
from kerasseq.tracing.intervention import Intervention, Moment
from kerasseq.tracing.listeners import (
    About,
    Listener,
    active,
    default_axes,
    is_differentiating,
    join,
    listening,
    paths,
)

Values = dict[str, Tensor]
Step = Callable[[Nested, dict[str, Any]], tuple[Nested, Nested]]
Complete = Callable[[Values, Nested, dict[str, Any]], Values]


class Owner(NamedTuple):
    """A layer under whose path the values of a part of the loop are recorded.

    Attributes:
        layer: The layer, which has a path in the model.
        part: What the steps call: its cell, or the layer itself.
        one_query: Whether the part is an attention that the steps call with one query,
            whose axis the recorded values do not have.
    """

    layer: keras.Layer
    part: Any
    one_query: bool = False


def observe(*owners: Owner, backwards: bool = False) -> "ObservedLoop | None":
    """Returns the listeners of a loop over time; None without any.

    Args:
        *owners: The layers whose values are recorded.
        backwards: Whether the loop begins with the last step of the input.
    """
    listeners = active()
    return ObservedLoop(listeners, owners, backwards) if listeners else None


class ObservedLoop:
    """The listeners of one loop over time.

    Attributes:
        changes: Whether the results of the loop may differ from those without
            listeners. They must then come from `run`.
        observes: Whether the loop must `run`.
    """

    def __init__(
        self,
        listeners: tuple[Listener, ...],
        owners: tuple[Owner, ...],
        backwards: bool,
    ) -> None:
        self.owners = owners
        self.backwards = backwards
        self.interventions: list[Intervention] = [
            x for x in listeners if isinstance(x, Intervention)
        ]
        self.recorder: Listener | None = next(
            (x for x in listeners if not x.intervenes), None
        )
        self.probes: Values = self._probes()
        layers = [owner.layer for owner in owners]
        self.intervenes: bool = any(
            one.changes(layer) for one in self.interventions for layer in layers
        )
        # A first call shows which names there are.
        named = any(one.is_incomplete() for one in self.interventions)
        records = self.recorder is not None and self.recorder.records
        self.changes: bool = self.intervenes or bool(self.probes)
        self.observes: bool = self.changes or records or named

    def _probes(self):
        """Returns probes of `gradient_flow`, `(B, T, H)`, by the keys of this loop."""
        if not hasattr(self.recorder, "probes"):
            return {}
        return {
            self.key(n, name): probe
            for n, owner in enumerate(self.owners)
            for name, probe in self.recorder.probes(owner.layer).items()
        }

    @staticmethod
    def key(owner: int, name: str) -> str:
        """Returns the key of a value of the owner with this index, in this loop."""
        return f"{owner}/{name}"

    def run(
        self,
        step: Step,
        carry: Nested,
        inputs: dict[str, Any],
        complete: Complete | None = None,
        *,
        unroll: bool = False,
    ) -> tuple[Nested, Nested]:
        """Runs the steps, and records and changes their values.

        Args:
            step: As for `kernels.scan`.
            carry: As for `kernels.scan`.
            inputs: As for `kernels.scan`, a dictionary.
            complete: Function of the recorded values of a step, the carry after it and
                its inputs, which returns the values by `key`.
            unroll: Whether to write the steps out.

        Returns:
            As `kernels.scan`.
        """
        moments, order = self._moments(tree.flatten(inputs)[0]), {}
        about = {}

        def observed(carry, now):
            listener = _StepListener(self, next(moments), now["probes"])
            with listening(listener):
                after, outputs = step(carry, now["inputs"])
            values = listener.values
            about.update(listener.about)
            if complete is not None:
                values = complete(values, after, now["inputs"])
            order.update(dict.fromkeys(values))  # which JAX does not keep
            return after, (outputs, values)

        probes = {key: self._time_first(x) for key, x in self.probes.items()}
        after, (outputs, values) = kernels.scan(
            observed,
            carry,
            {"inputs": inputs, "probes": probes},
            unroll=unroll or self.intervenes,
        )
        for key in order:
            self._record(key, values[key], about.get(key))
        return after, outputs

    def _moments(self, x):
        """Returns the steps in the order of processing, for interventions."""
        if not self.intervenes:
            return itertools.repeat(None)
        if not is_differentiating():
            check_eager(self.owners[0].layer, "values", x)
        steps = range(x.shape[0])
        steps = reversed(steps) if self.backwards else steps
        return iter([Moment(t, x.shape[0]) for t in steps])

    def _time_first(self, x):
        x = ops.swapaxes(ops.convert_to_tensor(x), 0, 1)
        return ops.flip(x, axis=0) if self.backwards else x

    def _record(self, key, value, about):
        """Hands the values of all steps `(T, B, ...)` to the recorder."""
        owner, _, name = key.partition("/")
        value = ops.swapaxes(value, 0, 1)
        if self.backwards:
            value = ops.flip(value, axis=1)
        if self.recorder is not None:
            layer = self.owners[int(owner)].layer
            rows, *others = about.axes if about else default_axes(len(value.shape) - 1)
            about = About((rows, "steps", *others))
            self.recorder.receive(layer, name, value, about)


class _StepListener(Listener):
    """Collects what one step records, after interventions and probes."""

    alone = True

    def __init__(
        self, loop: ObservedLoop, moment: Moment | None, probes: Values
    ) -> None:
        self.loop, self.moment, self.probes = loop, moment, probes
        self.values: Values = {}
        self.about: dict[str, About] = {}
        self.places = {
            layer: (n, path)
            for n, owner in enumerate(loop.owners)
            for layer, path in _paths(owner.part).items()
        }

    def receive(
        self, layer: keras.Layer, name: str, value: Tensor, about: About
    ) -> Tensor:
        if id(layer) not in self.places:
            return value
        n, path = self.places[id(layer)]
        owner, name = self.loop.owners[n], join(path, name)
        here = value
        if owner.one_query:
            here = value[:, 0]
            about = about._replace(axes=(about.axes[0], *about.axes[2:]))
        for intervention in self.loop.interventions:
            here = intervention.replace(owner.layer, name, here, about, self.moment)
        key = self.loop.key(n, name)
        self.about[key] = about
        if key in self.probes:
            here = here + self.probes[key]
        self.values[key] = here
        return ops.expand_dims(here, 1) if owner.one_query else here


def _paths(part):
    """Returns the paths in a cell, which may be of another library."""
    return paths(part) if isinstance(part, keras.Layer) else {id(part): ""}
