"""What a GPU computes, and how fast: checks and times on PyTorch and JAX.

"checks": layers in float32 with TF32 off and on, and in bfloat16, forward and backward,
as relative differences ‖y − ref‖ / ‖ref‖ to the same layer in float64 on the CPU, and
the fast path that ran. Times are milliseconds of a training step and of inference, each
until the GPU has finished, with TF32 on: "recurrent" layers beside `torch.nn` with
cuDNN, and beside its cells step by step, of which FlashRNN's kernels are said to be up
to 50 times as fast (arXiv:2412.07752); "attention" and the layers after it in bfloat16
over 4,096 tokens beside the fused attention of PyTorch; "training" of GPTs beside plain
PyTorch, and "generation" of 200 tokens beside KerasHub, both beside Hugging Face too.

Each part of each backend runs in a process of its own. What a backend or a package is
missing for is left out, and said. `--out FILE.md` writes the tables after each row, so
that a stopped run has what it measured. Without a GPU all of it runs on the CPU, with
tiny sizes unless `--size full` is given: it shows that the parts run, not how fast.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile

from benchmarks.options import add_names_arguments, new_file

PARTS = ("checks", "recurrent", "attention", "training", "generation")
BACKENDS = ("torch", "jax")
PEERS = {
    "recurrent": "torch.nn",
    "attention": "plain PyTorch",
    "training": "plain PyTorch",
    "generation": "KerasHub",
}


def add_arguments(parser):
    """Adds the options of this benchmark."""
    both = ",".join(BACKENDS)
    names = [("--parts", PARTS, ",".join(PARTS)), ("--backends", BACKENDS, both)]
    add_names_arguments(parser, names)
    help = "full with a GPU, else tiny"
    parser.add_argument("--size", choices=["full", "tiny"], help=help)
    parser.add_argument(
        "--out", type=new_file, metavar="FILE.md", help="write the tables there"
    )


def has_gpu(backend):
    """Returns whether a backend has a GPU, asked of a process of its own."""
    program = "from benchmarks import steps; raise SystemExit(not steps.has_gpu())"
    env = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, "-c", program]
    return not subprocess.run(command, env=env, stderr=subprocess.DEVNULL).returncode


def run(options):
    """Returns the machine, what was left out, and the rows of all parts."""
    found = [name for name in options.backends if importlib.util.find_spec(name)]
    result = {"machine": "", "left out": [], "table": []}
    for name in options.backends:
        if name not in found:
            result["left out"].append(f"{name}: not installed")
    if options.size is None:
        options.size = "full" if any(map(has_gpu, found)) else "tiny"
        if options.size == "tiny":
            result["left out"].append("full sizes, as there is no GPU: --size full")
    stopped = False
    with tempfile.TemporaryDirectory() as folder:
        try:
            run_parts(options, found, os.path.join(folder, "reference.npz"), result)
        except KeyboardInterrupt:
            stopped = True
            result["left out"].append("what would have followed: stopped by Ctrl-C")
    tables = markdown(result)
    if options.out:
        options.out.write_text(tables, encoding="utf-8")
    print(tables)
    failed = [row for row in result["table"] if row.get("check") == "failed"]
    if failed or stopped:
        raise SystemExit(f"{len(failed)} checks failed" if failed else 130)
    return {"machine": result["machine"], "rows": len(result["table"])}


def run_parts(options, found, reference, result):
    """Runs all parts on the backends that were found."""
    for part in options.parts:
        if part == "checks" and found:
            work("reference", found[0], options, reference, result, gpu=False)
        for name in found:
            work(part, name, options, reference, result)


def work(part, backend, options, reference, result, gpu=True):
    """Runs one part in a process, and adds its rows to the result as they come."""
    env = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    env |= {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    if not gpu:
        env |= {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}
        env |= {"JAX_ENABLE_X64": "1"}
    task = {"part": part, "size": options.size, "reference": reference}
    command = [sys.executable, "-m", "benchmarks.gpu", json.dumps(task)]
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env=env
        )
        for line in process.stdout:
            row = json.loads(line)
            if "machine" in row:
                result["machine"] = row["machine"]
            elif "left out" in row:
                result["left out"].append(f"{backend}, {part}: {row['left out']}")
            else:
                result["table"].append({"part": part, "backend": backend, **row})
                print(*row.values(), sep="  ", file=sys.stderr)
            if options.out:
                options.out.write_text(markdown(result), encoding="utf-8")
        if process.wait():
            log.seek(0)
            last = log.read().strip().splitlines()[-1:]
            result["left out"].append(f"{backend}, {part}: ended with {last}")


def markdown(result):
    """Returns the tables of all parts as Markdown."""
    text = [result["machine"], ""]
    for part in PARTS:
        rows = [row for row in result["table"] if row["part"] == part]
        if not rows:
            continue
        if part in PEERS:
            rows = with_ratios(rows, PEERS[part])
        keys = [key for key in rows[0] if key != "part"]
        text += [f"{part}:", "", f"| {' | '.join(keys)} |", "|---" * len(keys) + "|"]
        for row in rows:
            cells = [written(row.get(key, "")) for key in keys]
            text.append(f"| {' | '.join(cells)} |")
        text.append("")
    return "\n".join(text + [f"left out: {line}" for line in result["left out"]])


def with_ratios(rows, peer):
    """Adds the times divided by those of the peer in the same case, where it ran.

    A peer that ran on several backends is that of the row's own.
    """
    units = {}
    for row in rows:
        if row["implementation"] == peer:
            units[row.get("backend"), row["case"]] = row
            units.setdefault(row["case"], row)

    def ratio(row, key):
        unit = units.get((row.get("backend"), row["case"]), units.get(row["case"]))
        return row[key] / unit[key] if unit else ""

    keys = ("train ms", "infer ms", "ms")
    return [
        {**row, **{f"{key} / {peer}": ratio(row, key) for key in keys if key in row}}
        for row in rows
    ]


def written(value):
    """Returns a cell of a table."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def main():
    """Runs one part in this process, and prints a line of JSON for each row."""
    from benchmarks import gpu_parts

    task = json.loads(sys.argv[1])
    replies, sys.stdout = sys.stdout, sys.stderr  # libraries print, too

    def reply(row):
        print(json.dumps(row), file=replies, flush=True)

    reply({"machine": gpu_parts.machine()})
    for row in gpu_parts.rows(argparse.Namespace(**task)):
        reply(row)


if __name__ == "__main__":
    main()
