"""`kerasseq train captions`: a model learns to describe pictures.

Train a Transformer that writes a caption word by word. The data are scenes of colored
shapes, which are generated, as pictures, films or with sounds; or a folder of your own
pictures with a table, such as captions.csv with the columns image and text. A part of
the pictures is held out. There the share of captions that are exact and of words that
are right at their place is printed, beside those of captions that need no model: the
most frequent one, the most frequent word at each place, and that of the nearest picture
by its pixels.

Examples:
  kerasseq train captions
  kerasseq train captions pictures --image-size 64 --patience 10
  kerasseq train captions --objects 2 --units 96 --num-layers 3 --steps 3000
  kerasseq train captions --frames 4
then:
  kerasseq predict runs/captions-1
  kerasseq predict runs/captions-1 --file new.png
  kerasseq inspect runs/captions-1
"""

from kerasseq.cli import (
    caption_scores,
    contrastive,
    image_data,
    labeled,
    multimodal_data,
    runs,
)
from kerasseq.cli import multimodal_models as models
from kerasseq.cli.run import Run

FILE = "file"  # the argument that names the user's data
OF_FILE = multimodal_data.OF_FOLDER
DRAWN = 16  # pictures
DEFAULTS = {**multimodal_data.DEFAULTS, **models.DEFAULTS, "learning_rate": 2e-3}
CHOICES = multimodal_data.CHOICES
HELP = {**models.HELP, "batch_size": "pictures in a batch"}
OPTIONS = (*multimodal_data.OPTIONS, *models.OPTIONS)


def train(run: Run) -> runs.Results:
    """Trains the model, and compares its captions with those that need no model.

    Args:
        run: The run.

    Returns:
        The results, as plain data.
    """
    trained = models.fit(run, head="caption")
    model, held_out = trained.model, trained.held_out
    rows = caption_scores.rows(held_out, run.settings.seed)
    tested = multimodal_data.take(held_out, rows)
    every = multimodal_data.true_captions(held_out)
    spelled = caption_scores.speller(model.preprocessor.tokenizer)
    truths = [[*map(spelled, every[row])] for row in rows]
    texts = caption_scores.describe(model, tested)
    own = caption_scores.scores(texts, truths)
    others = caption_scores.baselines(
        trained.learned, tested, truths, run.settings, spelled
    )
    judged = caption_scores.judge(own, others)
    repeated = labeled.repeated(trained.keys, image_data.keys(tested.images))
    names = multimodal_data.names(tested)
    examples = caption_scores.examples(names, texts, truths)
    for each in (own, *others.values()):
        each.pop("right")
    results = run.results(
        *(model, trained.history, trained.steps),
        **own,
        baselines=others,
        verdict=judged,
        examples=examples,
        described=len(rows),
        repeated=repeated,
    )
    console = run.console
    caption_scores.show_examples(console, examples)
    title = f"Captions of {len(rows):,} held-out picture{'s' * (len(rows) > 1)}"
    caption_scores.show(console, title, {**others, "the model": own})
    console.write(judged["sentence"])
    labeled.show_repeated(console, repeated, len(rows), "pictures")
    titles = contrastive.titles(texts, truths)
    models.draw(run, trained, rows[:DRAWN], titles[:DRAWN])
    return run.finish(results)
