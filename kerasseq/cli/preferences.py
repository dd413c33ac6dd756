"""`kerasseq train preferences`: a language model learns from votes, or from rewards.

Train the model of a run further. --method dpo trains on votes, a file of prompts with a
chosen and a rejected answer, such as kerasseq arena writes; --method reward trains a
reward model on them. --method grpo samples answers to prompts, and trains on their
rewards: those of a reward model, or of a Python function of a list of prompts and a
list of their answers, which returns a number for each. A part of the votes or prompts
is held out, and the model is compared there with itself before.

Examples:
  kerasseq arena runs/1 runs/2 --prompts prompts.txt --votes votes.jsonl
  kerasseq train preferences --base runs/1 --file votes.jsonl
  kerasseq train preferences --base runs/1 --file votes.jsonl --lora 8
  kerasseq train preferences --base runs/1 --method reward --file votes.jsonl
  kerasseq train preferences --base runs/1 --method grpo --prompts prompts.txt
    --reward runs/preferences-reward-1
  kerasseq train preferences --base runs/1 --method grpo --prompts prompts.txt
    --reward rewards.py:shorter
then:
  kerasseq generate runs/preferences-dpo-1 --prompt "Once "
"""

from typing import Any

import kerasseq
from kerasseq.cli import (
    figures,
    generate,
    labeled,
    options,
    preference_data,
    runs,
    schedule,
    text_models,
)
from kerasseq.cli.commands import Option, shared, task_defaults, task_table
from kerasseq.cli.console import set_seed, status
from kerasseq.cli.errors import UsageError, about, refuse
from kerasseq.cli.options import PerModel
from kerasseq.cli.run import Run


class PerMethod(PerModel):
    """A default that depends on the method of training.

    Examples:
        >>> DEFAULTS["beta"].of("dpo"), DEFAULTS["beta"].of("grpo")
        (0.1, 0.04)
    """

    argument: str = "method"


FILE = None  # the methods read different files
PATHS = ("file", "prompts", "reward")
METHODS = ("dpo", "reward", "grpo")
STEPS = 200  # of grpo, at least
NEEDED = {"dpo": ("file",), "reward": ("file",), "grpo": ("prompts", "reward")}
OF_GRPO = ("prompts", "reward", "num_generations", "max_new_tokens")
OF_GRPO += ("no_scale_rewards", "num_iterations", "epsilon")
REFUSED = {"dpo": OF_GRPO, "reward": (*OF_GRPO, "beta"), "grpo": ("file",)}
_FILE = "votes: JSON lines with prompt, chosen and rejected"
_PROMPTS = "of grpo: one prompt on each line, or JSON lines"
_REWARD = "of grpo: the run of a reward model, or a function as file.py:function"
_UNSCALED = "of grpo: do not divide rewards by their deviation in a group"
_EPSILON = "of grpo: ratios beyond 1 - X and 1 + X are cut"
OPTIONS = task_table(
    Option("--method NAME", "model", METHODS, "how to train", "dpo"),
    text_models.BASE._replace(help="the language model to train further"),
    *text_models.OPTIONS,
    Option("--file FILE", "data", str, _FILE),
    Option("--prompts FILE", "data", str, _PROMPTS),
    Option("--reward RUN", "data", str, _REWARD),
    shared("held_out", 0.2, "fraction of the votes or prompts that is held out"),
    Option(
        "--beta X",
        "training",
        options.positive,
        "how strongly the model is held near the base",
        PerMethod(0.1, grpo=0.04, reward=None),
    ),
    Option(
        "--num-generations N",
        "training",
        options.integer(2, 10**4),
        "of grpo: answers to each prompt of a batch",
        PerMethod(None, grpo=16),
    ),
    Option(
        "--max-new-tokens N",
        "training",
        options.length,
        "of grpo: tokens of an answer, at most",
        PerMethod(None, grpo=32),
    ),
    Option("--no-scale-rewards", "training", None, _UNSCALED, False),
    Option(
        "--num-iterations N",
        "training",
        options.integer(1, 1000),
        "of grpo: updates on the same answers",
        PerMethod(None, grpo=1),
    ),
    Option(
        "--epsilon X", "training", options.positive, _EPSILON, PerMethod(None, grpo=0.2)
    ),
    shared(
        "batch_size",
        PerMethod(32, grpo=4),
        "votes in a batch; of grpo the prompts in it",
    ),
    shared("learning_rate", PerMethod(3e-4, reward=1e-3)),
    *schedule.TRAINED,
    shared("max_minutes"),
    shared("checkpoint_every", PerMethod(100, grpo=10)),
    shared(
        "epochs",
        None,
        f"passes over the votes or prompts (default: {options.EPOCHS}; of grpo "
        "at least 200 steps)",
    ),
)
DEFAULTS = task_defaults(OPTIONS)


def train(run: Run) -> runs.Results:
    """Trains by the method of the run, and compares with the model before.

    Args:
        run: The run.

    Returns:
        The results, as plain data.
    """
    check_options(run.settings)
    return train_on_rewards(run) if run.settings.method == "grpo" else on_votes(run)


def check_options(settings: options.Settings) -> None:
    """Raises a `UsageError` if an option is missing, or is of another method."""
    method = settings.method
    for name in ("base", *NEEDED[method]):
        if getattr(settings, name) is None:
            raise UsageError(
                f"--method {method} needs --{name}, received none. See  kerasseq train "
                "preferences --help"
            )
    others = [name for name in REFUSED[method] if getattr(settings, name)]
    advice = "Leave it out, or choose another --method"
    refuse(others, f"is not for --method {method}. {advice}")


def on_votes(run: Run) -> runs.Results:
    """Trains a language model or a reward model on votes."""
    settings = run.settings
    votes, data = run.read("the votes", preference_data.read_votes)
    base = generate.load_language_model(settings.base)
    is_reward = settings.method == "reward"
    if is_reward and not isinstance(base, kerasseq.models.GPT):
        raise UsageError(
            f"--method reward needs a gpt, received {type(base).__name__} in --base "
            f"{settings.base}. Choose another base, or --method dpo"
        )
    model, trainer = build(settings, base)
    votes = preference_data.encode_votes(model, votes, settings.file)
    split = settings.held_out, settings.seed
    learned, held_out = preference_data.split(votes, *split, at_least=1)
    keys = [vote.key for vote in learned]
    repeated = labeled.repeated(keys, (vote.key for vote in held_out))
    batches = trainer.batches(
        preference_data.columns(learned),
        batch_size=settings.batch_size,
        seed=settings.seed,
    )
    with status("evaluating the base"):
        before = preference_data.of_votes(trainer, held_out)
    steps = schedule.number_of_steps(settings, batches.steps_per_epoch)
    compile_both(model, trainer, settings, steps)
    text = f"{data['source']}: {len(votes):,} votes, {len(held_out):,} held out."
    run.start(data, text, keys)
    metric = "accuracy" if is_reward else "rewards/accuracies"
    history = run.fit(trainer, batches, steps, metric, saved=model)
    with status("evaluating"):
        after = preference_data.of_votes(trainer, held_out)
        scores = preference_data.compare_votes(settings.method, before, after)
        if not is_reward:
            prompts = [vote.texts for vote in held_out]
            scores["kl"] = preference_data.divergence(trainer, prompts, settings.seed)
    scores |= {"votes": len(votes), "held_out": len(held_out), "repeated": repeated}
    return finish(run, model, history, steps, scores, metric)


def train_on_rewards(run: Run) -> runs.Results:
    """Trains a language model on rewards of its own answers."""
    settings = run.settings
    prompts, data = run.read("the prompts", preference_data.read_prompt_lines)
    base = generate.load_language_model(settings.base)
    for line, text in prompts:
        where = f"{settings.prompts}, line {line}"
        preference_data.encode_text(base, text, where)
    reward = preference_data.load_reward(settings.reward)
    split = settings.held_out, settings.seed
    learned, held_out = preference_data.split(prompts, *split, at_least=0)
    learned, held_out = ([text for _, text in part] for part in (learned, held_out))
    repeated = labeled.repeated(learned, held_out)
    model, trainer = build(settings, base, reward)
    with about(settings.prompts):
        batches = trainer.batches(learned, settings.batch_size, settings.seed)
    tested = (held_out or learned)[: preference_data.MOST]
    with status("evaluating the base"), about(settings.reward):
        before = preference_data.of_prompts(trainer, tested, settings.seed)
    few = max(options.EPOCHS, STEPS / batches.steps_per_epoch)
    steps = schedule.number_of_steps(settings, batches.steps_per_epoch, few)
    compile_both(model, trainer, settings, steps)
    text = f"{data['source']}: {len(prompts):,} prompts, {len(held_out):,} held out."
    run.start(data, text)
    try:
        history = run.fit(trainer, batches, steps, "reward", saved=model)
    except ValueError as error:
        raise ValueError(
            f"{error}. The steps up to the last checkpoint are kept: mend --reward "
            f"{settings.reward}, then  kerasseq train --resume {run.folder}"
        ) from error
    with status("evaluating"):
        after = preference_data.of_prompts(trainer, tested, settings.seed)
    scores = preference_data.compare_rewards(before, after, bool(held_out))
    scores["kl"] = trainer.divergence(
        tested,
        max_new_tokens=settings.max_new_tokens,
        num_generations=2,
        seed=settings.seed,
    )
    counts = {"prompts": len(prompts), "held_out": len(held_out), "repeated": repeated}
    return finish(run, model, history, steps, scores | counts, "reward")


def build(settings: options.Settings, base: Any, reward: Any = None) -> tuple[Any, Any]:
    """Returns the model to be kept, and what trains it: a model, too.

    With an adapter the reference is the base without it.

    Args:
        settings: Arguments of the run.
        base: The language model.
        reward: The reward of grpo.
    """
    training = kerasseq.training
    set_seed(settings.seed)
    is_reward = settings.method == "reward"
    model = base.with_head("reward") if is_reward else base
    with about(settings.base):
        text_models.adapt(model, settings)
    if is_reward:
        return model, model
    if settings.method == "dpo":
        return model, training.DPO(model, settings.beta)
    return model, training.GRPO(
        model,
        reward,
        settings.num_generations,
        settings.beta,
        settings.epsilon,
        not settings.no_scale_rewards,
        num_iterations=settings.num_iterations,
        max_new_tokens=settings.max_new_tokens,
    )


def compile_both(
    model: Any, trainer: Any, settings: options.Settings, steps: int
) -> None:
    """Compiles what trains, and the model that is kept, with one Adam.

    Its rate falls to 0. The optimizer of the base would count the steps of the base.
    """
    optimizer = schedule.adam(settings.learning_rate, steps)
    trainer.compile(optimizer)
    if model is not trainer:
        model.compile(optimizer)


def finish(
    run: Run,
    model: Any,
    history: runs.History,
    steps: int,
    scores: dict[str, Any],
    metric: str,
) -> runs.Results:
    """Saves the adapter, shows the scores, draws the training, and ends the run."""
    scores |= text_models.save(run, model)
    method = {"method": run.settings.method}
    results = run.results(model, history, steps, **method, **scores)
    preference_data.show(run.console, results)
    what = "votes" if "votes" in results else "prompts"
    count = results["held_out"]
    labeled.show_repeated(run.console, results["repeated"], count, what)
    run.draw(lambda: [figures.history(run.folder, history, metric, run.title)])
    return run.finish(results)
