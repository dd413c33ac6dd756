"""The code that the word vectors of the lab Tokens show."""

MODEL = """
import kerasseq

vectors = kerasseq.load_model({model_file})
"""

NEAREST = (
    MODEL
    + """
for neighbor in vectors.nearest({word}, {count}):
    print(f"{neighbor.word:15} {neighbor.similarity:.3f}")
"""
)

ANALOGY = (
    MODEL
    + """
print("b - a + c:", vectors.analogy({a}, {b}, {c}, {count}))
print("nearest to c:", vectors.nearest({c}, {count}, exclude=[{a}, {b}]))
"""
)

PLURAL = (
    MODEL
    + """
shown = {shown}
plural = vectors.direction({others})
for pair in shown:
    print(pair, vectors.along(plural, pair))

names = [word for pair in shown for word in pair]
projection = vectors.projection(names)
figure = kerasseq.tracing.plots.plot_words(projection.points, names, pairs=shown)
figure.savefig("plural.png")
"""
)
