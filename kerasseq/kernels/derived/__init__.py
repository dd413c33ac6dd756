"""Derives the loop of a recurrent cell, and its gradient, from one step.

`derive` calls the step once and returns a `Derived`: the step and its backward pass as
graphs of values. Each backend has a module `derived` that runs it through time, with

- `can_run(tensors)`: whether it runs here, for the inputs and the states;
- `run(derived, x, states, parameters, noise, mask, *, path, again)`: the output at all
  steps, `(T, B, n)`, or None if not `path`, and the list of the last states. x is
  `(T, B, N)`, as `Derived.take_ahead` returns it; `states` has one more, of zeros, if
  `derived.extra`; `parameters` is what `derived.parameters` returns; `noise` lists the
  masks of recurrent dropout, `(B, n)` each, and `mask` is boolean `(T, B)`, or None.
  x, states and parameters have gradients. `again` returns x once more; PyTorch calls it
  for a second derivative, so that it need not keep x in each training step.
"""
