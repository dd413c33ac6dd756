"""Lab 15, Count: parameters, memory and operations of a Transformer, never built."""

from parts import figures, figures_years, lab
from parts.errors import Refused

EQUATIONS = (
    r"P \approx 12\,L\,d^2 + V d",
    r"\text{FLOPs} = 2P + 4\,L\,T\,N H",
    r"\text{cache} = 2\,L\,N_{kv}\,H\,T\,B",
)
WITHOUT_HEADS = ("mamba", "rwkv4")
TRIES = ({"model": "gpt3"}, {"model": "gpt3", "num_heads": "192"}, {"batch": "32"})
SIZES = {  # attributes of an architecture: the ends of their boxes
    "num_layers": (1, 1000),
    "hidden_dim": (8, 100_000),
    "num_heads": (1, 1024),
    "vocabulary_size": (2, 1_000_000),
}
DTYPES = ("bfloat16", "float32")
LENGTHS = [2**n for n in range(7, 18)]
GIB = 2**30
BRAIN = {"neurons": 86e9, "synapses": 1e14}  # slide C:795
CODE = """
import kerasseq

model = kerasseq.models.architectures[{name}]
print(kerasseq.models.count(model))
print(f"{kerasseq.models.count(model, what='all').total:,} parameters in all")
costs = kerasseq.models.costs(
    model, sequence_length={length}, batch_size={batch}, dtype={dtype}
)
print(f"{costs.forward_flops:.3g} operations per token")
print(f"{costs.inference_bytes / 2**30:.1f} GiB to generate, of which")
print(f"{costs.cache_bytes / 2**30:.1f} GiB are the cache")
print(f"{costs.training_bytes / 2**30:.1f} GiB to train")
"""


def table():
    """Returns title, stacks and sizes of each published model."""
    import kerasseq

    found = {
        name: {"title": a.title, "note": a.note, "size": a.size, "kind": a.kind}
        | {size: getattr(a, size) for size in (*SIZES, "max_sequence_length")}
        for name, a in kerasseq.models.architectures.items()
    }
    for name, row in found.items():
        if kerasseq.models.architectures[name].attention in WITHOUT_HEADS:
            row["num_heads"] = None
    return found


def counted(name, changes, length, batch, dtype):
    """Returns matrices, totals and costs of a model as plain data."""
    import kerasseq

    model = kerasseq.models.architectures[name].scaled(**changes)
    matrices = kerasseq.models.count(model)
    options = {"batch_size": batch, "dtype": dtype}
    costs = kerasseq.models.costs(model, sequence_length=length, **options)
    lengths = [] if model.kind == "vision" else LENGTHS
    return {
        "matrices": [p._asdict() | {"weights": p.weights} for p in matrices.parts],
        "total": matrices.total,
        "number": matrices.number,
        "all": kerasseq.models.count(model, what="all").total,
        "rule": model.rule_of_thumb,
        "length": costs.sequence_length,
        "forward": costs.forward_flops,
        "training": costs.training_flops,
        "memory": {
            part: getattr(costs, f"{part}_bytes")
            for part in ("weights", "cache", "gradients", "optimizer", "activations")
        },
        "inference_bytes": costs.inference_bytes,
        "training_bytes": costs.training_bytes,
        "by_length": [
            (t, kerasseq.models.costs(model, sequence_length=t, **options).cache_bytes)
            for t in lengths
        ],
    }


def sizes(here, row):
    """Draws the boxes for sizes of one's own, and returns those that are filled."""
    changes = {}
    for name, (low, high) in SIZES.items():
        if row[name] is not None:
            found = here.number(name, low, high, None, placeholder=str(row[name]))
            if found is not None:
                changes[name] = found
    width = changes.get("hidden_dim", row["hidden_dim"])
    heads = changes.get("num_heads", row["num_heads"])
    if heads and {"hidden_dim", "num_heads"} & set(changes) and width % heads:
        raise Refused("bad_heads", heads=heads, width=width)
    return changes


def matrix(here, name):
    """Returns the name of a matrix in the language of the page."""
    words = name.lower().replace("-", "_").split()  # such as "Cross key"
    stack = [w for w in words if w in ("encoder", "decoder", "cross")]
    kind = here.text(f"matrix_{words[-1]}")
    return here.text(f"stack_{stack[0]}", matrix=kind) if stack else kind


def body(here):
    """Draws the page."""
    rows = here.compute(table)
    titles = {name: row["title"] for name, row in rows.items()}
    with here.controls():
        name = here.choice("model", list(rows), "gpt3", labels=titles)
        row = rows[name]
        changes = sizes(here, row)
    with here.controls():
        published = str(row["max_sequence_length"] or 2048)
        length = here.number("length", 1, 10**6, None, placeholder=published)
        batch = here.number("batch", 1, 100_000, 1)
        dtype = here.choice("dtype", DTYPES, wide=True, labels=str)
    found = here.compute(counted, name, changes, length, batch, dtype)
    results(here, found)
    matrices(here, found)
    memory(here, found)
    cache(here, found)
    years(here)
    code = CODE.replace("{name}]", "{name}].scaled(**{changes})") if changes else CODE
    length = found["length"]
    here.code(code, name=name, changes=changes, length=length, batch=batch, dtype=dtype)


def results(here, found):
    """Draws the totals."""
    here.facts(
        ("course_total", here.write(found["total"])),
        ("course_number", here.write(found["number"])),
        ("all_total", here.write(found["all"])),
        ("rule", here.write(found["rule"])),
    )
    here.facts(
        ("forward", here.short(found["forward"], "FLOP")),
        ("training", here.short(found["training"], "FLOP")),
        ("inference_bytes", here.gib(found["inference_bytes"])),
        ("training_bytes", here.gib(found["training_bytes"])),
    )


def matrices(here, found):
    """Draws the parameters matrix by matrix."""
    rows = [
        {
            "matrix": matrix(here, part["name"]),
            "shape": " × ".join(map(here.write, part["shape"])),
            "number": part["number"],
            "parameters": part["weights"],
            "share": part["weights"] / found["total"],
        }
        for part in found["matrices"]
    ]
    titles = {key: here.text(key) for key in rows[0]}
    chart = figures.bars(here.style, rows, "parameters", "matrix", titles=titles)
    here.picture("matrices", chart, rows, titles)


def memory(here, found):
    """Draws what lies in memory, in training and in generation."""
    parts = {
        "inference": ("weights", "cache"),
        "train": ("weights", "gradients", "optimizer", "activations"),
    }
    rows = [
        {
            "use": here.text(f"use_{use}"),
            "part": here.text(f"part_{part}"),
            "gib": found["memory"][part] / GIB,
        }
        for use, names in parts.items()
        for part in names
    ]
    titles = {key: here.text(key) for key in rows[0]}
    chart = figures.stacked(here.style, rows, "gib", "use", "part", titles=titles)
    here.picture("memory", chart, rows, titles)


def cache(here, found):
    """Draws the size of the cache against the length."""
    if not any(size for _, size in found["by_length"]):
        here.say("no_cache")
        return
    if len({size for _, size in found["by_length"]}) == 1:
        here.say("states", size=here.write(found["memory"]["cache"] / 2**20, 2))
        return
    rows = [
        {"tokens": t, "gib": size / GIB, "part": here.text("part_cache")}
        for t, size in found["by_length"]
    ]
    rules = {here.text("part_weights"): found["memory"]["weights"] / GIB}
    titles = {key: here.text(key) for key in rows[0]}
    chart = figures.lines(
        here.style, rows, "tokens", "gib", "part", titles=titles, rules=rules, log_x=2
    )
    here.picture("cache", chart, rows, titles)


def timeline():
    """Returns the published models by year."""
    import kerasseq

    return figures_years.table(kerasseq.models.architectures)


def years(here):
    """Draws the sizes of the published models by year, beside those of a brain."""
    rows = [
        {**row, "kind": here.text(f"kind_{row['kind']}")}
        for row in here.compute(timeline)
    ]
    rules = {here.text(name): number for name, number in BRAIN.items()}
    titles = {key: here.text(f"years_{key}") for key in rows[0]}
    chart = figures_years.sizes(here.style, rows, rules, titles)
    here.picture("years", chart, rows, titles)


if __name__ == "__main__":
    lab.show("count", body, equations=EQUATIONS, tries=TRIES)
