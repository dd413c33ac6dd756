# %% [markdown] title
# # From a language model to an assistant

# %% [markdown] goals
# After this tutorial you will be able to
#
# - turn a language model that continues texts into one that answers questions, with a
#   chat template and a loss over the answers alone;
# - measure what such a model learns, on questions that it has never been asked, and
#   what it forgets meanwhile;
# - derive the loss of direct preference optimization (DPO), train on votes with it, and
#   say how far the model has moved.

# %% [markdown] imports_text
# The tutorial needs kerasseq, Keras and matplotlib, and downloads nothing.

# %% imports
import os

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import ops

import kerasseq

# %% [markdown] settings_text
# The settings: the sizes of the GPT, the training steps of the three stages, and how
# often the last two are measured.

# %% settings
options = {"num_layers": 2, "num_heads": 4, "hidden_dim": 96}
context, batch_size = 48, 32
read_steps, talk_steps, vote_steps, parts = 1000, 300, 50, 10

# %% small tags=["small"]
if "KERASSEQ_SMALL" in os.environ:
    options = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8}
    read_steps, talk_steps, vote_steps, parts = 2, 2, 2, 2

# %% [markdown] question
# ## The question
#
# A GPT predicts the next token, so it continues a text ([A Transformer block, and
# GPT](10_gpt.md)). An assistant answers. **What must be added to a language model so
# that it answers, and does it still know what it has read?**
#
# The data are facts: sums, what comes next among days and months, and who is whose
# mother and lives where. Mothers and towns are drawn, so that they follow from nothing
# else. Each fact is told in several sentences, and there are questions about it. The
# facts are split at random: conversations will be about one half, and the model is
# tested on the other half. It reads about both, but no question about the other half
# is ever in training.

# %% facts
facts = kerasseq.datasets.conversations()
asked, others = facts.split()
number, number_asked = len(facts.answers), len(asked.answers)
print(f"{number} facts, {number_asked} to be asked, {len(others.answers)} never asked")
for column in (facts.sentences[-1], facts.questions[-1], [facts.full_answers[-1]]):
    print(*column, sep="  ")

# %% [markdown] read_text
# ## First stage: reading
#
# The tokens are words. Four more tokens, `template.special_tokens`, are in the
# vocabulary but not in the text; their time will come. The cell also defines three
# measures: `known` is the share of the facts whose first sentence the model completes
# with the right word, `right` the share of questions about the other half that it
# answers rightly, and `full` the share that it answers in a full sentence.

# %% read
template = kerasseq.text.ChatTemplate()
tokenizer = kerasseq.text.WordTokenizer(special_tokens=template.special_tokens)
told = (*facts.sentences, *facts.questions, facts.full_answers)
tokenizer.fit([text for row in told for text in row])
tokenizer.chat_template = template
beginnings = [f". {beginning}" for beginning in facts.beginnings()]
test = others.messages()  # a question and its answer each
prompts = [template.render(talk[:1], add_generation_prompt=True) for talk in test]


def known(model):
    texts = model.generate(beginnings, 1, temperature=0)
    ends = [text.split()[-1] for text in texts]
    return float(np.mean([a == b for a, b in zip(ends, facts.answers, strict=True)]))


def answers(model, prompts, temperature):
    texts = model.generate(prompts, 8, temperature=temperature, stop="<|end|>", seed=0)
    texts = [text.split("<|assistant|>")[1].split("<|end|>")[0] for text in texts]
    return [text.strip() for text in texts]


def right(model):
    given = [answer.strip(" .").split() for answer in answers(model, prompts, 0)]
    wanted = [talk[1]["content"] for talk in test]
    return float(np.mean([a[-1:] == [b] for a, b in zip(given, wanted, strict=True)]))


def full(model):
    return float(np.mean([a.endswith(".") for a in answers(model, prompts, 1)]))


keras.utils.set_random_seed(0)
model = kerasseq.models.GPT(tokenizer, max_sequence_length=context, **options)
sizes = {"sequence_length": context, "batch_size": batch_size, "verbose": 0}
model.compile(kerasseq.training.gpt_optimizer(model, 3e-3, read_steps))
model.fit(facts.text(20_000), steps_per_epoch=read_steps, **sizes)
pretrained = model.get_weights()
read_known, read_right = known(model), right(model)
print(f"knows {read_known:.3f} of the facts, answers {read_right:.3f} rightly")
question = others.questions[-1][0]
for prompt in (others.beginnings()[-1], question):
    print(repr(model.generate(f". {prompt}", 8, temperature=0)))

# %% [markdown] read_after
# The model completes {{ read_known | percent }} of the sentences, and answers
# {{ read_right | percent }} of the questions. It has the fact, and cannot give it: in
# all that it has read, no question occurs, and a word that never follows another gets
# no probability. So it does what it has learned, and writes sentences.

# %% [markdown] equation
# ## The equations
#
# **Conversations.** A conversation is written as one text, in which special tokens show
# who speaks, and where an answer ends:
#
# `<|user|> Where does Zoe live? <|assistant|> Oslo <|end|>`
#
# The form is called a *chat template*. The model is trained on such texts with its old
# loss, but with a weight $w_t$ for each token: 1 for the tokens that the assistant
# writes, including the end, and 0 for all others, which it only reads:
#
# $$L = -\frac{\sum_t w_t \ln \pi(x_t \mid x_1 \dots x_{t-1})}{\sum_t w_t}$$
#
# **Votes.** Now people compare two answers $y_c$ and $y_r$ to a prompt $x$, and choose
# one. The model of Bradley and Terry gives each answer a reward $r$, and says
#
# $$P(y_c \text{ is chosen}) = \sigma\bigl(r(x, y_c) - r(x, y_r)\bigr)$$
#
# InstructGPT learned $r$ from votes with a second network, and then looked for the
# model $\pi$ with a large mean reward that stays near $\pi_{\text{ref}}$, the model of
# before: that with the largest
# $\mathbb{E}\, r - \beta\, \mathrm{KL}(\pi \,\|\, \pi_{\text{ref}})$. The solution is
# known, with a constant $Z$ that makes the sum of the probabilities 1:
#
# $$\pi(y \mid x) = \frac{\pi_{\text{ref}}(y \mid x)\, e^{r(x, y) / \beta}}{Z(x)}
# \quad\Longleftrightarrow\quad
# r(x, y) = \beta \ln \frac{\pi(y \mid x)}{\pi_{\text{ref}}(y \mid x)}
# + \beta \ln Z(x)$$
#
# The right side is the idea of **DPO**: the language model is its own reward model. In
# the difference of two rewards $Z$ is gone, and the likelihood of the votes becomes a
# loss for $\pi$, without a second network and without sampling:
#
# $$L = -\ln \sigma\bigl(\beta\, (\Delta_c - \Delta_r)\bigr), \qquad
# \Delta = \ln \pi(y \mid x) - \ln \pi_{\text{ref}}(y \mid x)$$
#
# At the start $\pi = \pi_{\text{ref}}$, both $\Delta$ are 0, and the loss is
# $-\ln \sigma(0) = \ln 2$ for every vote.

# %% [markdown] scratch_text
# ## From scratch
#
# Short functions: the template with its weights, the loss of a conversation, and the
# loss of a vote. Messages are dictionaries with a role and a content, as everywhere.


# %% scratch tags=["scratch"]
def conversation_tokens(messages):
    """Ids of a conversation, and the weight of each."""
    ids, weights = [], []
    for message in messages:
        is_answer = message["role"] == "assistant"
        written = [(f"<|{message['role']}|>", 0), (message["content"], is_answer)]
        for text, weight in [*written, ("<|end|>", 1)] if is_answer else written:
            new = tokenizer.encode(text)
            ids.extend(new)
            weights.extend([weight] * len(new))
    return np.array(ids), ops.convert_to_tensor(weights, "float32")


def log_p(model, ids):
    """ln p of each token but the first, given those before it."""
    log_probabilities = ops.log_softmax(model(ids[None, :-1])[0])
    return ops.take_along_axis(log_probabilities, ids[1:, None], axis=-1)[:, 0]


def answer_loss(model, messages):
    ids, w = conversation_tokens(messages)
    return -ops.sum(w[1:] * log_p(model, ids)) / ops.sum(w[1:])


def dpo_loss(model, reference, question, answers, beta=0.5):
    delta = []
    for answer in answers:  # the chosen and the rejected one
        ids, w = conversation_tokens([question, answer])
        delta.append(ops.sum(w[1:] * (log_p(model, ids) - log_p(reference, ids))))
    return ops.softplus(-beta * (delta[0] - delta[1]))  # -ln sigma(z)


# %% [markdown] library
# ## The same with kerasseq
#
# The chat template belongs to the tokenizer, and `fit` and `evaluate` take lists of
# conversations. `kerasseq.training.DPO` takes the model and votes. The cell compares
# both with the functions above, the second one with a random model as reference, then
# with the model itself, and prints what the template writes.

# %% library_equal
talk = asked.messages()[-1]
sentence = {"role": "assistant", "content": asked.full_answers[-1]}
vote = {"prompt": talk[:1], "chosen": [sentence], "rejected": talk[1:]}
stranger = kerasseq.models.GPT(tokenizer, max_sequence_length=context, **options)
dpo = kerasseq.training.DPO(model, beta=0.5, reference=stranger)
pair = [sentence, talk[1]]
for ours, theirs in (
    (answer_loss(model, talk), model.evaluate([talk], verbose=0, return_dict=True)),
    (
        dpo_loss(model, stranger, talk[0], pair),
        dpo.evaluate([vote], verbose=0, return_dict=True),
    ),
):
    print(f"by hand {ops.convert_to_numpy(ours):.5f}, kerasseq {theirs['loss']:.5f}")
first_loss = float(ops.convert_to_numpy(dpo_loss(model, model, talk[0], pair)))
print(f"first loss {first_loss:.5f}, ln 2 = {np.log(2):.5f}")
print(tokenizer.apply_chat_template(talk, tokenize=False))

# %% [markdown] inside
# ## Look inside
#
# Which tokens count? The next figure shows two questions of one conversation, and a
# piece of text. Below each token is its loss $-\ln \pi$ under the model that has only
# read. A text counts with all of its tokens, here with a tenth, because it has many
# more of them than an answer.

# %% inside_code
birth = {"role": "user", "content": asked.questions[-1][0]}
two = [*asked.messages()[-30], birth, sentence]
ids, weights = conversation_tokens(two)
weights = ops.convert_to_numpy(weights)
cut = int(np.argmax(np.cumsum(ids == tokenizer.encode("<|user|>")[0]) == 2))
text_ids = tokenizer.encode(facts.text(3, seed=7))
losses = [-ops.convert_to_numpy(log_p(model, each)) for each in (ids, text_ids)]
losses = [np.concatenate([[np.nan], each]) for each in losses]
rows = [
    (ids[:cut], weights[:cut], losses[0][:cut]),
    (ids[cut:], weights[cut:], losses[0][cut:]),
    (text_ids, np.full(len(text_ids), 0.1), losses[1]),
]
answer_start = float(losses[0][1:][weights[1:] > 0][0])

# %% weights_figure tags=["figure"]
figure, axis = plt.subplots(figsize=(8, 2.6), layout="constrained")
styles = {0.0: ("#666666", 0.12), 1.0: ("C0", 0.5), 0.1: ("C0", 0.2)}
for row, (row_ids, row_weights, row_losses) in enumerate(rows):
    x = 0.0
    for i, w, loss in zip(row_ids, row_weights, row_losses, strict=True):
        token = tokenizer.vocabulary[int(i)]
        width, middle = max(len(token), 3) + 1.0, x + max(len(token), 3) / 2
        color, alpha = styles[round(float(w), 1)]
        axis.barh(row, width - 0.3, 0.42, x - 0.35, color=color, alpha=alpha)
        axis.text(middle, row, token, ha="center", va="center", fontsize=7.5)
        if np.isfinite(loss):
            axis.annotate(f"{loss:.1f}", (middle, row + 0.4), ha="center", fontsize=7)
        x += width
for weight, name in ((1.0, "weight 1"), (0.1, "a tenth"), (0.0, "only read")):
    color, alpha = styles[weight]
    axis.bar(0, 0, color=color, alpha=alpha, label=name)
axis.set_ylim(2.6, -0.4)
axis.axis("off")
figure.legend(loc="outside lower center", ncols=3)
plt.close(figure)
figure

# %% [markdown] weights_figure_caption
# Three rows of tokens in boxes: two questions with their answers, whose tokens are
# colored, and a text, in which all tokens are colored palely.
#
# The tokens of a conversation and of a text, colored by what they count in the loss;
# below each its loss under the model that has only read.

# %% [markdown] inside_after
# In a conversation nearly everything surprises a model that has read only sentences;
# the first token that counts has a loss of {{ answer_start | number(1) }}. Questions
# have large losses as well, but need not be learned: an assistant reads questions and
# does not write them. In the text only words with which a fact begins are uncertain;
# its last word is known.

# %% [markdown] misconception
# ## A misconception
#
# > "Fine-tuning adds something to what a model knows."
#
# It changes the weights that hold the facts, and its loss says nothing about what is to
# remain. In 1989 McCloskey and Cohen showed a network that learned to add 1, then to
# add 2, and could no longer add 1: *catastrophic interference*. We train twice from the
# same weights: on conversations alone, and on the same conversations mixed with text.

# %% [markdown] experiment
# ## The experiment: second stage, conversations
#
# There are 4,000 conversations of one or two questions about facts of the first half;
# an answer is a word or a sentence, with equal probability.

# %% talk
talks = asked.messages(4000, max_questions=2, full_answers=0.5)
text_again, counts = facts.text(14_000, seed=1), [1.0] * len(talks)
data = {"with": ([*talks, text_again], [*counts, 0.1]), "without": (talks, counts)}
curves, trained = {}, {}
for name, (x, weights) in data.items():
    model.set_weights(pretrained)
    model.compile(kerasseq.training.gpt_optimizer(model, 5e-4, talk_steps))
    curves[name] = [(known(model), right(model))]
    sizes |= {"sample_weight": weights, "steps_per_epoch": talk_steps // parts}
    for part in range(parts):
        model.fit(x, initial_epoch=part, epochs=part + 1, **sizes)
        curves[name].append((known(model), right(model)))
    trained[name] = model.get_weights()
talk_known, talk_right = curves["with"][-1]
alone_known, alone_right = curves["without"][-1]
result, result_name = talk_right, "right answers on the half that was never asked"
print(f"with text     knows {talk_known:.3f}, answers {talk_right:.3f} rightly")
print(f"without text  knows {alone_known:.3f}, answers {alone_right:.3f} rightly")

# %% forgetting tags=["figure"]
figure, (left, side) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
done = np.arange(parts + 1) * (talk_steps // parts)
for name, style in zip(["with text", "without text"], ["o-", "s--"], strict=True):
    curve = np.array(curves["with" if style == "o-" else "without"])
    left.plot(done, curve[:, 0], style)
    side.plot(done, curve[:, 1], style, label=name)
for axis in (left, side):
    axis.set_xlabel("steps of conversations")
    axis.set_ylim(-0.03, 1.03)
left.set_ylabel("known facts")
side.set_ylabel("right answers")
figure.legend(loc="outside right upper")
plt.close(figure)
figure

# %% [markdown] forgetting_caption
# Two panels with two curves each over the steps: on the left the known facts, on the
# right the right answers about the other half.
#
# Left: the share of the sentences that the model still completes rightly. Right: the
# share of right answers to questions about facts of which no conversation was.

# %% [markdown] experiment_after
# After {{ talk_steps | integer }} steps with text the model answers
# {{ talk_right | percent }} of the questions about facts that it was never asked about.
# The conversations have not taught it these facts, but how to give those it has. It
# still knows {{ talk_known | percent }} of them. Without text it learns to answer as
# well, {{ alone_right | percent }}, but completes only {{ alone_known | percent }} of
# the sentences. The remedy is as old as the problem: *rehearsal* of what was learned
# before.

# %% [markdown] votes_text
# ## Third stage: votes
#
# The assistant answers in words or in sentences, as it was taught. Suppose that people
# prefer sentences: of a word and a sentence, both right and about the first half, each
# vote is for the sentence. The reference is a frozen copy of the model of the second
# stage.

# %% votes
model.set_weights(trained["with"])
words, sentences = asked.messages(), asked.messages(full_answers=1.0)
votes = [
    {"prompt": word[:1], "chosen": sentence[1:], "rejected": word[1:]}
    for word, sentence in zip(words, sentences, strict=True)
]
dpo = kerasseq.training.DPO(model, beta=0.5)
dpo.compile(keras.optimizers.Adam(1e-4))
vote_curve, losses = [(full(model), right(model), known(model))], []
sizes = {"batch_size": batch_size, "steps_per_epoch": max(1, vote_steps // parts)}
for part in range(parts):
    fitted = dpo.fit(votes, initial_epoch=part, epochs=part + 1, verbose=0, **sizes)
    losses += fitted.history["loss"]
    vote_curve.append((full(model), right(model), known(model)))
full_before, full_after = vote_curve[0][0], vote_curve[-1][0]
best = max(range(parts + 1), key=lambda part: vote_curve[part][0])
full_best, best_steps = vote_curve[best][0], best * sizes["steps_per_epoch"]
voted = model.get_weights()
vote_right, vote_known = vote_curve[-1][1:]
kl = dpo.divergence(prompts, max_new_tokens=8, num_generations=2, stop="<|end|>")
least = -float(np.log(max(full_before, 1e-9)))
print("loss of each part", np.round(losses, 3))
print(f"in full {full_before:.3f} before, {full_after:.3f} after")
print(f"right {vote_right:.3f}, knows {vote_known:.3f}, KL {kl:.2f} nats an answer")

# %% votes_figure tags=["figure"]
figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
done = np.arange(parts + 1) * max(1, vote_steps // parts)
full_curve, right_curve, known_curve = zip(*vote_curve, strict=True)
axis.plot(done, full_curve, "o-", label="full sentences")
axis.plot(done, right_curve, "s-", label="right answers")
axis.plot(done, known_curve, "^-", label="known facts")
axis.set_xlabel("steps of votes")
axis.set_ylabel("share")
axis.set_ylim(-0.03, 1.03)
figure.legend(loc="outside right upper")
plt.close(figure)
figure

# %% [markdown] votes_figure_caption
# Three curves over the steps of DPO: one rises and stays, one dips a little, one falls.
#
# What votes for sentences change: answers in full sentences, right answers, and the
# facts whose sentences the model still completes.

# %% [markdown] votes_after
# Before the votes {{ full_before | percent }} of the answers were full sentences; after
# {{ best_steps | integer }} steps {{ full_best | percent }} are, about facts for which
# there was no vote, too. The loss falls on, but there is nothing left to win: at the
# end {{ full_after | percent }} of the answers are sentences,
# {{ vote_right | percent }} are right, and the model knows only
# {{ vote_known | percent }} of the facts. This is *over-optimization*: DPO rewards the
# distance between two answers without an end, and holds nothing else in its place.
#
# The divergence shows it. A model that only stopped giving single words, and otherwise
# remained the same, would be at $-\ln$ of the former share of sentences,
# {{ least | number(2) }} nats an answer. Ours is at {{ kl | number(2) }}. Hence votes
# are used for few steps, with a small rate, and with an eye on the divergence.

# %% [markdown] chat_text
# ## Talk with it
#
# `kerasseq.models.Chat` keeps the conversation, writes it with the template, and
# generates up to the end of the answer. `stream` yields each token when it is
# generated, with its probability. We talk with the model of the second stage. The last
# three questions have no answer.

# %% chat
model.set_weights(trained["with"])
chat = kerasseq.models.Chat(model, max_new_tokens=8)
nonsense = ["Where does Monday live?", "What comes after Ben?", "What is Ben plus Zoe?"]
frame, surest = {"The", "answer", "is", ".", "<|end|>"}, 0.0
for question in [others.questions[-1][0], *nonsense]:
    chat.messages.clear()  # a new conversation
    pieces = list(chat.stream(question))
    print("Question:", question)
    print("   ", *(f"{piece.token} {piece.probability:.2f} " for piece in pieces))
    sure = [piece.probability for piece in pieces if piece.token not in frame]
    surest = max([surest, *sure]) if question in nonsense else surest

# %% [markdown] chat_after
# The assistant knows no other way than to answer: nonsense gets a probability of up to
# {{ surest | percent }}. In its conversations each question had an answer, so it never
# learned to say that it does not know. The probability of a token tells how well it
# fits the texts of the training, not whether it is true. Large assistants, too, have to
# be taught when not to answer.

# %% [markdown] exercises
# ## Exercises
#
# 1. Ask the assistant without the template, with the question alone as text. What does
#    it write?
# 2. Which kinds of facts did the votes make it forget?
# 3. Learn from conversations with LoRA instead, which trains two thin matrices beside
#    each kernel: `model.enable_lora(8, "all-linear")`, with a rate of $0.005$. How many
#    weights are trained, and what is forgotten without text?

# %% solution_template tags=["solution"]
for question in [questions[0] for questions in others.questions[-3:]]:
    print(repr(model.generate(f". {question}", 8, temperature=0)))

# %% [markdown] solution_template_after
# Here it answers, and goes on, since `generate` was given no token at which to stop.
# But not all answers are right: the model has learned from questions with the tokens of
# the template. So the template is saved with the tokenizer of a model.

# %% solution_kinds tags=["solution"]
model.set_weights(voted)
texts = model.generate(beginnings, 1, temperature=0)
hits = [text.split()[-1] == a for text, a in zip(texts, facts.answers, strict=True)]
for kind in dict.fromkeys(facts.kinds):
    share = np.mean([h for h, k in zip(hits, facts.kinds, strict=True) if k == kind])
    print(f"{kind:7} {share:.2f} of {facts.kinds.count(kind)} known")

# %% [markdown] solution_kinds_after
# The kinds differ: most mothers are still known, and half of the sums are lost. Yet no
# vote was against any of them; each was between two right answers.

# %% solution_lora tags=["solution"]
model.set_weights(pretrained)
model.compile(kerasseq.training.gpt_optimizer(model, 5e-3, talk_steps))
model.enable_lora(8, "all-linear")
sizes = {"sequence_length": context, "batch_size": batch_size, "verbose": 0}
model.fit(talks, steps_per_epoch=talk_steps, **sizes)
lora_weights = sum(int(np.prod(w.shape)) for w in model.trainable_weights)
lora_known, lora_right, total = known(model), right(model), model.count_params()
print(f"{lora_weights:,} of {total:,} weights trained, {4 * lora_weights:,} bytes")
print(f"knows {lora_known:.3f} of the facts, answers {lora_right:.3f} rightly")
model.set_adapter(None)
print(f"without the adapter it knows {known(model):.3f}")

# %% [markdown] solution_lora_after
# With an adapter of {{ lora_weights | integer }} weights the model answers as well, and
# without text it keeps {{ lora_known | percent }} of the facts, not
# {{ alone_known | percent }} as with all weights: a change of low rank has less room to
# overwrite. And the kernels are untouched: without the adapter nothing is lost.

# %% [markdown] summary
# ## What we have seen
#
# - A model that completes {{ read_known | percent }} of the facts answered
#   {{ read_right | percent }} of the questions: knowing and answering are different.
# - A chat template, a loss over the answers alone and conversations about one half of
#   the facts gave {{ talk_right | percent }} right answers about the other half.
# - Without text among the conversations the model kept {{ alone_known | percent }} of
#   the facts, with text {{ talk_known | percent }}.
# - The loss of DPO starts at $\ln 2$; votes changed the form of the answers within
#   {{ best_steps | integer }} steps, and the model forgot more with each further step.
# - The assistant answers nonsense with probabilities of up to {{ surest | percent }}.

# %% [markdown] questions
# ## Questions for the code
#
# - Does a larger `beta` of DPO, such as 2, forget less? Does a smaller rate?
# - How few conversations are enough? Pass `talks[:50]` to the second stage.
# - Can it learn to refuse? Fit the tokenizer on "I do not know." as well, and add
#   conversations that answer nonsense with it.

# %% [markdown] references
# ## References
#
# - A. Radford et al.: *Language Models are Unsupervised Multitask Learners*, 2019.
# - L. Ouyang et al.: *Training language models to follow instructions with human
#   feedback*, 2022 (InstructGPT).
# - R. Rafailov et al.: *Direct Preference Optimization: Your Language Model is Secretly
#   a Reward Model*, 2023; R. A. Bradley, M. E. Terry: *Rank Analysis of Incomplete
#   Block Designs*, 1952.
# - M. McCloskey, N. J. Cohen: *Catastrophic Interference in Connectionist Networks: The
#   Sequential Learning Problem*, 1989; R. M. French: *Catastrophic forgetting in
#   connectionist networks*, 1999.
# - E. J. Hu et al.: *LoRA: Low-Rank Adaptation of Large Language Models*, 2021.
# - Slides C (large language models, RLHF, the chatbot arena). Labs *Chat* and *Votes*
#   of the app (`kerasseq app`).
