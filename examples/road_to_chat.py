"""From a tokenizer to a chat: pre-training, conversations, votes.

    python examples/road_to_chat.py road --language fr

A GPT reads 211 facts in sentences. Then it is asked about one half of them, with text
among the conversations; the other half tests it. At last votes prefer full sentences to
single words, at a price: it forgets some of the rest. The folder gets the model of each
stage; talk with one:  kerasseq chat road/2-talk.keras  . Takes some minutes on two
cores. Source: course slides C (RLHF and the chatbot arena).
"""

import argparse
import pathlib

import keras
from kerasseq import datasets, models, text, training

SIZES = {"sequence_length": 48, "batch_size": 32}


def build(facts):
    """A GPT whose tokens are the words of the facts, and marks of who speaks."""
    template = text.ChatTemplate()
    tokenizer = text.WordTokenizer(special_tokens=template.special_tokens)
    told = (*facts.sentences, *facts.questions, facts.full_answers)
    tokenizer.fit([x for row in told for x in row])
    tokenizer.chat_template = template
    sizes = {"num_layers": 3, "num_heads": 4, "hidden_dim": 96}
    return models.GPT(tokenizer, max_sequence_length=48, **sizes)


def read(model, facts, asked, args):
    """Pre-training: predict the next word of the text."""
    model.compile(training.gpt_optimizer(model, 2e-3, args.steps))
    pages = facts.text(20_000, seed=args.seed)
    model.fit(pages, steps_per_epoch=args.steps, **SIZES)


def talk(model, facts, asked, args):
    """Conversations: predict the answers, mixed with text, not to forget the facts."""
    talks = asked.messages(4000, max_questions=2, full_answers=0.5, seed=args.seed)
    pages, weights = facts.text(14_000, seed=args.seed + 1), [1.0] * len(talks)
    model.compile(training.gpt_optimizer(model, 5e-4, args.steps // 5))
    counts = {"steps_per_epoch": args.steps // 5, "sample_weight": [*weights, 0.1]}
    model.fit([*talks, pages], **counts, **SIZES)


def vote(model, facts, asked, args):
    """Votes: of two right answers the longer one, a sentence, is chosen."""
    rows = zip(asked.messages(), asked.messages(full_answers=1.0), strict=True)
    pairs = [([q], [word["content"], full["content"]]) for (q, word), (_, full) in rows]
    votes = datasets.preferences(
        *zip(*pairs, strict=True), lambda _, answer: len(answer)
    )
    dpo = training.DPO(model, beta=0.5)
    dpo.compile(keras.optimizers.Adam(1e-4))
    dpo.fit(votes, batch_size=32, steps_per_epoch=args.steps // 30)


def test(model, facts, others):
    """Completes sentences, and answers the questions that were never asked."""
    prompts = [f". {beginning}" for beginning in facts.beginnings()]
    ends = [x.split()[-1] for x in model.generate(prompts, 1, temperature=0)]
    known = sum(map(str.__eq__, ends, facts.answers)) / len(ends)
    talks, write = others.messages(), model.tokenizer.apply_chat_template
    options = {"tokenize": False, "add_generation_prompt": True}
    prompts = [write(messages[:1], **options) for messages in talks]
    answers = []
    for temperature in (0, 1):  # the most probable answer, and one that is drawn
        options = {"temperature": temperature, "stop": "<|end|>", "seed": 0}
        texts = model.generate(prompts, 12, **options)
        answers.append([x.split("<|assistant|>")[1].split("<|end|>")[0] for x in texts])
    last = [x.strip(" .").split()[-1:] for x in answers[0]]
    right = sum([m[1]["content"]] == x for x, m in zip(last, talks, strict=True))
    full = sum(x.strip().endswith(".") for x in answers[1])
    return known, right / len(talks), full / len(talks)


def main(argv=None):
    """Trains the three stages, and prints what each of them changes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--language", choices=["en", "fr"], default="en")
    parser.add_argument("--steps", type=int, default=1500)  # of pre-training
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    args.folder.mkdir(parents=True, exist_ok=True)
    keras.utils.set_random_seed(args.seed)
    facts = datasets.conversations(args.language, seed=args.seed)
    (asked, others), model = facts.split(seed=args.seed), build(facts)
    for n, train in enumerate([read, talk, vote], start=1):
        train(model, facts, asked, args)
        known, right, full = test(model, facts, others)
        print(f"{n}. {train.__doc__.partition(':')[0]}: knows {known:.3f} of the facts")
        print(f"   questions about the others: {right:.3f} right, {full:.3f} in full")
        model.save(args.folder / f"{n}-{train.__name__}.keras")


if __name__ == "__main__":
    main()
