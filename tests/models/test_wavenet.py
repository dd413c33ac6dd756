"""A language model over convolutions: it carries their last inputs."""

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq.decoding import Beam
from kerasseq.layers import CausalConv1D, WaveNet
from kerasseq.models import LanguageModel

V, H = 11, 5
IDS = np.random.default_rng(0).integers(0, V, 7).astype("int32")
LAYERS = {
    "WaveNet": lambda: WaveNet(H, dilations=[1, 2]),
    "CausalConv1D": lambda: CausalConv1D(H, 3, dilation_rate=2),
    "pointwise": lambda: CausalConv1D(H, 1),
}
pytestmark = pytest.mark.everywhere("the compiled loop", cases=1)


@pytest.mark.parametrize("name", LAYERS)
def test_it_generates_with_its_state_what_it_reads(name, tmp_path):
    keras.utils.set_random_seed(1)
    model = LanguageModel(LAYERS[name](), vocabulary_size=V)
    for weight in model.trainable_weights:
        weight.assign(np.random.default_rng(2).normal(size=weight.shape))
    prompts = [IDS, IDS[:1], IDS[3:5]]
    found = [row.tolist() for row in model.generate(prompts, 9, temperature=0)]
    for row in found:  # carried on = read from the start
        logits = keras.ops.convert_to_numpy(model(np.array([row])))[0]
        for end in range(len(row) - 9, len(row)):
            assert logits[end - 1].max() - logits[end - 1, row[end]] < 1e-4
    streamed = model.stream(prompts[1], 9, temperature=0)
    assert [*prompts[1].tolist(), *streamed] == found[1]
    state, _ = model.start([IDS.tolist()], 9)
    shapes = [tuple(s.shape) for s in keras.tree.flatten(state)]
    _, state = model.step(state, IDS[:1])
    assert shapes == [tuple(s.shape) for s in keras.tree.flatten(state)]


@pytest.mark.once("the loops of beams are those of other states")
def test_beams_reorder_the_states_and_files_hold_the_layer(tmp_path):
    model = LanguageModel(LAYERS["WaveNet"](), vocabulary_size=V)
    best = model.generate([IDS, IDS[:2]], 5, sampler=Beam(3))
    for row, prompt in zip(best, (IDS, IDS[:2]), strict=True):
        alone = model.generate(prompt, 5, sampler=Beam(3))
        np.testing.assert_array_equal(row, alone)
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    again = loaded.generate(IDS, 5, sampler=Beam(3))
    np.testing.assert_array_equal(again, best[0])
