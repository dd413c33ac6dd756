"""Which calls of prompt and step are compared with the model."""

import keras
import numpy as np
import pytest

from kerasseq import models
from kerasseq.exporting import decoder_steps, decoders

pytestmark = pytest.mark.once("programs in place of files, on any backend")


def programs(decoder, is_wrong):
    """A class in place of `Programs`: the model itself, with an error in some calls."""

    class Programs:
        def __init__(self, folder):
            self.calls = 0

        def prompt(self, inputs):
            values = [keras.ops.convert_to_tensor(inputs[x.name]) for x in self.inputs]
            return self._answer(decoder.prompt(*values))

        def step(self, token):
            token = keras.ops.convert_to_tensor(token)
            return self._answer(decoder.step(token, self.state))

        inputs = decoder.inputs

        def _answer(self, found):
            logits, self.state = found
            self.calls += 1
            y = keras.ops.convert_to_numpy(logits)
            return y + 0.5 * is_wrong(len(y), self.calls)

    return Programs


@pytest.mark.parametrize(
    ("is_wrong", "is_found"),
    [
        (lambda rows, call: False, False),
        (lambda rows, call: rows == 1 and call == 1, True),
        (lambda rows, call: rows == 3 and call == 5, True),
        (lambda rows, call: rows == 1 and call == 4, True),
    ],
    ids=["right", "prompt", "three rows", "third step"],
)
def test_prompt_and_three_steps_of_one_row_and_of_three(
    monkeypatch, tmp_path, is_wrong, is_found
):
    model = models.LanguageModel("gru", vocabulary_size=13, units=3)
    decoder = decoders.decoder_of(model)
    monkeypatch.setattr(decoder_steps, "Programs", programs(decoder, is_wrong))
    found = decoder_steps.check(model, tmp_path)
    assert (found > 1e-2) == is_found
    assert np.isfinite(found)
