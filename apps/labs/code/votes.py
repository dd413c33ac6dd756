"""The code that the lab Votes shows."""

VOTE = """
from kerasseq import training

votes = {votes}  # winner, loser
print(training.ratings(votes, prior=1))
"""
TRAIN = """
import keras

from kerasseq import datasets, models, text, training

tokenizer = text.CharacterTokenizer(unknown=None).fit(":0123456789")
model = models.GPT(
    tokenizer, num_layers=2, num_heads=2, hidden_dim=16, max_sequence_length=10
)  # that of this page has learned to write digits before
rows = [row[1:] for row in model.generate([":"] * {answers}, 8, seed=0)]


def reward(prompt, answer):
    return {worth} * sum(digit in "02468" for digit in answer)


pairs = list(zip(rows[::2], rows[1::2]))
votes = datasets.preferences(
    [":"] * len(pairs), pairs, reward, votes="bradley_terry"
)
dpo = training.DPO(model, beta={beta})
dpo.compile(keras.optimizers.Adam(1e-3))
dpo.fit(votes, batch_size=32, steps_per_epoch={steps})
print(dpo.divergence([":"], max_new_tokens=8), "nats an answer from the reference")
print(model.generate([":"] * 5, 8, seed=1))
"""
LIMITS = """
import keras

from kerasseq import models, text, training

tokenizer = text.CharacterTokenizer(unknown=None).fit(":0123456789")
sizes = {"num_layers": 2, "num_heads": 2, "hidden_dim": 16}


def even_share(prompts, answers):
    return [sum(digit in "02468" for digit in answer) / 8 for answer in answers]


for options in (
    {"scale_rewards": False},
    {"scale_rewards": False, "use_bias_correction_kl": False},
    {"scale_rewards": True},
):
    model = models.GPT(tokenizer, **sizes, max_sequence_length=10)
    grpo = training.GRPO(model, even_share, max_new_tokens=8, **options)
    grpo.compile(keras.optimizers.Adam(1e-3))
    history = grpo.fit([":"] * 4, steps_per_epoch=2).history  # here 400 steps
    print(options, history["reward"][-1], history["kl"][-1])
"""
