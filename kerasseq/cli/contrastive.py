"""`kerasseq train contrastive`: which caption belongs to which picture.

Train a model that gives pictures and captions vectors, near for a pair and far for
others. The data are scenes of colored shapes, which are generated, as pictures, films
or with sounds; or a folder of your own pictures with a table, such as captions.csv with
the columns image and text. A part of the pictures is held out. There the share of
pictures whose own caption is the nearest of up to 256 is printed, and back, beside
chance.

Examples:
  kerasseq train contrastive
  kerasseq train contrastive pictures --image-size 64 --steps 5000
  kerasseq train contrastive --sound --num-experts 4
then:
  kerasseq predict runs/contrastive-1 --text "a small red square at the top left"
  kerasseq predict runs/contrastive-1 --file new.png --captions captions.txt
  kerasseq inspect runs/contrastive-1
"""

import textwrap
from typing import TYPE_CHECKING, Any

from kerasseq.cli import image_data, labeled, multimodal_data, retrieval, runs
from kerasseq.cli import multimodal_models as models
from kerasseq.cli.options import Option

if TYPE_CHECKING:
    from kerasseq.cli.run import Run

FILE = "file"  # the argument that names the user's data
OF_FILE = multimodal_data.OF_FOLDER
LOSSES = ("softmax", "sigmoid")
DRAWN = 16  # pictures
DEFAULTS = {
    **multimodal_data.DEFAULTS,
    "loss": "softmax",
    **models.DEFAULTS,
    "learning_rate": 1e-3,
}
CHOICES = {**multimodal_data.CHOICES, "loss": LOSSES}
HELP = {
    **models.HELP,
    "batch_size": "pairs in a batch, which are compared with each other",
}
_LOSS = "as in CLIP or as in SigLIP"
OPTIONS = (
    *multimodal_data.OPTIONS,
    *models.OPTIONS,
    Option("--loss", "loss", _LOSS, "NAME", "model"),
)


def train(run: "Run") -> runs.Results:
    """Trains the model, and counts how often the right partner is the nearest.

    Args:
        run: The run.

    Returns:
        The results, as plain data.
    """
    settings = run.settings
    trained = models.fit(run, head="contrastive", loss=settings.loss)
    model, held_out = trained.model, trained.held_out
    rows = retrieval.candidates(held_out, settings.seed)
    tested = multimodal_data.take(held_out, rows)
    vectors = retrieval.vectors(model, tested, settings.batch_size)
    found = retrieval.scores(vectors)
    judged = retrieval.judge(found)
    repeated = labeled.repeated(trained.keys, image_data.keys(tested.images))
    plain = {
        name: {key: value for key, value in each.items() if key != "ranks"}
        for name, each in found.items()
    }
    results = run.results(
        *(model, trained.history, trained.steps),
        scores=plain,
        candidates=len(rows),
        temperature=model.temperature,
        verdict=judged,
        repeated=repeated,
    )
    retrieval.show(run.console, found)
    run.console.write(judged["sentence"])
    labeled.show_repeated(run.console, repeated, len(rows), "pictures")
    texts = retrieval.nearest(vectors["images"] @ vectors["texts"].T, tested.texts)
    models.draw(run, trained, rows[:DRAWN], titles(texts, tested.texts)[:DRAWN])
    return run.finish(results)


def titles(texts: list[str], truths: list[Any]) -> list[str]:
    """Returns captions as titles, with a mark at those that are wrong.

    Examples:
        >>> titles(["a kite", "a sea"], ["a kite", ["a sky"]])
        ['a kite', '✗ a sea']
    """
    marked = [
        text if text == truth or text in truth else f"✗ {text}"
        for text, truth in zip(texts, truths, strict=True)
    ]
    return [textwrap.fill(text, 20, max_lines=4) for text in marked]
