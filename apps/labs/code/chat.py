"""The code that the lab Chat shows; `prepare_chat.py` trains its models with it."""

READ = """
import numpy as np

from kerasseq import datasets, models, text, training

facts = datasets.conversations({language})
asked, others = facts.split()  # no conversation asks about the others
template = text.ChatTemplate()
tokenizer = text.WordTokenizer(special_tokens=template.special_tokens)
tokenizer.fit(t for texts in facts.sentences + facts.questions for t in texts)
tokenizer.chat_template = template
model = models.GPT(
    tokenizer, num_layers=2, num_heads=4, hidden_dim=64, max_sequence_length=64
)
# Reading: sentences about all facts.
steps = 1500
model.compile(training.gpt_optimizer(model, 3e-3, steps, weight_decay=0.01))
options = {"sequence_length": 64, "batch_size": 32, "verbose": 0}
model.fit(facts.text(20_000), steps_per_epoch=steps, **options)
"""

TALK = """
# Conversations about half of the facts; and texts, so that none is forgotten.
steps //= 3
talks = asked.messages(20 * steps, max_questions=4)
texts = [facts.text(8, seed=n) for n in range(12 * steps)]
weights = np.repeat([1.0, 0.1], [len(talks), len(texts)])
model.compile(training.gpt_optimizer(model, 1e-3, steps, weight_decay=0.01))
model.fit(talks + texts, sample_weight=weights, steps_per_epoch=steps, **options)
"""

CHAT = """
chat = models.Chat(
    model, max_new_tokens={most}, temperature={temperature}, seed={seed}
)
for message in {said}:
    print(chat.prompt(message))
    for piece in chat.stream(message):
        print(repr(piece.token), round(piece.probability, 3), piece.best)
"""

STAGES = {"read": READ, "talk": READ + TALK}
QUICK = {"steps = 1500": "steps = 6", "20_000": "200"}


def source(stage: str) -> str:
    """Returns the template of the code of a stage."""
    return STAGES[stage] + CHAT
