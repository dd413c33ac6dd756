"""The code that the lab Translation shows."""

ALIGN = """
import kerasseq

model = kerasseq.load_model({file})
found = model.translate({source})
print(found.text, found.score)  # its log-probability
if found.alignment is not None:
    for token, weights in zip(found.target_tokens, found.alignment):
        print(token, "reads", found.source_tokens[weights.argmax()], weights.max())
"""

LENGTHS = """
import kerasseq

pairs = kerasseq.datasets.generated_pairs({data}, {generated}, seed=0)
_, held_out = kerasseq.datasets.split(pairs, (0.95, 0.05), seed=0)
sources, targets = held_out.sources[:{tested}], held_out.targets[:{tested}]
for kind, file in {files}.items():
    model = kerasseq.load_model(file)
    groups = {}
    outputs = model.translate(sources, {most})
    for source, target, found in zip(sources, targets, outputs):
        groups.setdefault(len(source) // {width}, []).append(found.text == target)
    for group, exact in sorted(groups.items()):
        print(kind, "from", group * {width}, "characters:", sum(exact) / len(exact))
"""

FORCING = """
import numpy as np

import kerasseq

model = kerasseq.load_model({file})
vocabulary = model.target_vocabulary
inputs, labels = model.arrays([{source}], [{target}])
forced = model.predict(inputs, verbose=0).argmax(-1)
print("right ", vocabulary.tokens(labels[labels > 0]))
print("forced", vocabulary.tokens(forced[labels > 0]))


def own(prefix):
    # The model continues from its own tokens, not from those of the target.
    source = np.stack(model.encode_sources([{source}]))
    found = kerasseq.decoding.generate(
        model.step,
        model.initial_state(source, {most}),
        [[vocabulary.start, *prefix]],
        max_new_tokens={most} - len(prefix),
        stop=vocabulary.end,
    )
    return [*prefix, *found.ids[0, : found.lengths[0]].tolist()]


ids = own([])
print("own   ", vocabulary.tokens(np.array(ids)))
planted = min({planted}, len(ids))
if planted:  # the second choice instead of the first one
    (source, _), _ = model.arrays([{source}], [{target}])
    z = model.predict([source, np.array([[vocabulary.start, *ids]])], verbose=0)
    second = int(z[0, planted - 1].argsort()[-2])
    ids = [*ids[: planted - 1], second]
    if second != vocabulary.end and planted < {most}:
        ids = own(ids)
    print("after ", vocabulary.tokens(np.array(ids)))
"""

BEAM = """
import kerasseq

model = kerasseq.load_model({file})
found = model.search_tree(
    {source}, {most}, width={width}, length_penalty={penalty}
)
print("greedy", "".join(found.greedy_tokens), found.greedy_scores[-1])
print("beam  ", "".join(found.tokens[n] for n in found.best), found.score)
tree = found.tree
for n, token in enumerate(found.tokens):
    sign = "+" if tree.kept[n] else "-"
    print(tree.step[n], sign, repr(token), "after", tree.parent[n], tree.score[n])
"""
