"""The code that the lab Positions shows."""

MEASURE = """
import kerasseq
from kerasseq import layers, tracing

kinds = {
    "sine": layers.SinePositionEncoding(),
    "learned": layers.PositionEmbedding({length}),
    "binary": layers.BinaryPosition(),
    "amplitude": layers.AmplitudePosition(),
    "rotary": layers.RotaryEmbedding(),
    "alibi": layers.AlibiBias(),
    "relative": layers.RelativePositionBias(),
    "transformer_xl": layers.TransformerXLPosition(),
}
"""

MAPS = (
    MEASURE
    + """
for kind in {kinds}:
    code = tracing.position_code(kinds[kind], {length}, {width})
    relation = tracing.position_relation(kinds[kind], {length}, {width})
    print(kind, code.shape, relation.shape)
figure = tracing.plots.plot_positions(
    {kind: kinds[kind] for kind in {kinds}}, {length}, {width}
)
figure.savefig("positions.png")
"""
)

CRITERIA = (
    MEASURE
    + """
for kind, layer in kinds.items():
    print(kind)
    for name, found in tracing.position_criteria(layer, {length}, {width}).items():
        print("   ", name, "yes" if found.holds else "no", found.value)
"""
)

RELATION = (
    MEASURE
    + """
for kind in {kinds}:
    product = tracing.position_relation(kinds[kind], {length}, {width})[..., 0]
    if kind not in ("alibi", "relative", "transformer_xl"):  # not a bias
        code = tracing.position_code(kinds[kind], {length}, {width})
        product = code @ code.T
    for k in (1, 2, 4):
        print(kind, "distance", k, product.diagonal(k)[:5].round(2))
"""
)

BEYOND = """
import keras
import numpy as np

import kerasseq

files = {files}
text = kerasseq.datasets.python_reference()[-20_000:]
for position, file in files.items():
    model = kerasseq.load_model(file)
    ids = model.ids(text)
    longest = 8 * model.max_sequence_length
    rows = (len(ids) - 1) // longest
    x = ids[: rows * longest].reshape(rows, longest)
    y = ids[1 : rows * longest + 1].reshape(rows, longest)
    length = model.context_length or longest  # learned positions end
    loss = keras.losses.sparse_categorical_crossentropy(
        y[:16, :length], model(x[:16, :length]), from_logits=True
    )
    bits = keras.ops.convert_to_numpy(loss).mean(axis=0) / np.log(2)
    print(position, bits.reshape(-1, model.max_sequence_length).mean(axis=1).round(2))
"""
