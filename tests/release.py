"""Builds a release, and checks it in fresh environments of Pythons and backends.

    python3 tests/release.py build --out dist
    python3 tests/release.py build --tag v0.2.0 --out dist   # of a dated change log
    python3 tests/release.py check --out dist --pythons 3.11,3.12 --backends torch,jax

`build` makes the source distribution, and the wheel from it, so that nothing is missing
in either. `check` installs the wheel into a new environment, outside this folder, and
trains, saves, loads and generates with it. A Python that is not on this machine is
named at the end, and counts as not checked.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHONS = "3.11,3.12,3.13"
BACKENDS = "tensorflow,jax,torch"
PROGRAM = """
import pathlib, kerasseq, keras
assert "site-packages" in kerasseq.__file__, kerasseq.__file__
tokenizer = kerasseq.text.CharacterTokenizer().fit("model gate state ")
model = kerasseq.models.LanguageModel("peephole_lstm", tokenizer, units=5)
model.fit("model gate state " * 40, sequence_length=7, epochs=1, verbose=0)
model.save("model.keras")
again = kerasseq.load_model("model.keras")
text = model.generate("mo", max_new_tokens=5, temperature=0)
assert text == again.generate("mo", max_new_tokens=5, temperature=0)
assert kerasseq.datasets.slides("E:575").title and kerasseq.exercises.question("01.1")
print(kerasseq.__version__, keras.backend.backend(), repr(text))
"""
COMMANDS = (
    ("--version",),
    ("info",),
    ("data", "parentheses-plain", "--count", "1"),
    ("params", "gpt3"),
    ("train", "parentheses", "--model", "gru", "--units", "3", "--steps", "3")
    + ("--seeds", "0", "--run", "race"),
)


def main():
    """Runs the command that the words name."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=("build", "check"))
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("dist"))
    parser.add_argument("--tag", help="the tag of the release, such as v0.2.0")
    parser.add_argument("--pythons", default=None, help=f"as in {PYTHONS}")
    parser.add_argument("--backends", default=BACKENDS)
    args = parser.parse_args()
    if args.command == "build":
        problems = build(args.out.absolute(), args.tag)
    else:
        this = f"{sys.version_info.major}.{sys.version_info.minor}"
        pythons = (args.pythons or this).split(",")
        problems = check(args.out.absolute(), pythons, args.backends.split(","))
    for problem in problems:
        print(f"release: {problem}", file=sys.stderr)
    sys.exit(bool(problems))


def version():
    """Returns the version, which stands in one place."""
    text = (ROOT / "kerasseq" / "__init__.py").read_text(encoding="utf-8")
    return re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)[1]


def problems_of_tag(tag, changes):
    """Lists what is wrong with the tag of a release and the change log.

    >>> problems_of_tag("v0.0.1", "## 0.0.1 (1 May 2026)")
    ['the tag v0.0.1 is not v0.1.0, the version', 'CHANGELOG.md has no date of 0.1.0']
    """
    now = version()
    found = [] if tag == f"v{now}" else [f"the tag {tag} is not v{now}, the version"]
    heading = re.search(rf"^## {re.escape(now)} \((.+)\)$", changes, re.MULTILINE)
    if heading is None or not re.search(r"\d{4}", heading[1]):
        found.append(f"CHANGELOG.md has no date of {now}")
    return found


def build(out, tag):
    """Builds the source distribution, and the wheel from it; returns problems."""
    if tag is not None:
        changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
        if problems := problems_of_tag(tag, changes):
            return problems
    shutil.rmtree(out, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        python = environment(sys.executable, folder)
        run([python, "-m", "pip", "install", "-q", "build"])
        run([python, "-m", "build", "--outdir", out, ROOT])  # the wheel from the sdist
    names = sorted(path.name for path in out.iterdir())
    print("\n".join(names))
    wanted = [f"kerasseq-{version()}-py3-none-any.whl", f"kerasseq-{version()}.tar.gz"]
    return [] if names == wanted else [f"expected {wanted}, built {names}"]


def check(out, pythons, backends):
    """Installs the wheel for each Python and backend; returns problems."""
    wheels = sorted(out.glob("kerasseq-*.whl"))
    if len(wheels) != 1:
        return [f"expected one wheel in {out}, found {len(wheels)}"]
    problems = []
    for python in pythons:
        # Before the scripts of pyenv, which stand for versions that are not active.
        program = of_pyenv(python) or shutil.which(f"python{python}")
        if program is None:
            problems.append(f"Python {python} is not on this machine: not checked")
            continue
        for backend in backends:
            with tempfile.TemporaryDirectory() as folder:
                where = f"Python {python}, {backend}"
                try:
                    print(f"{where}: {tried(program, backend, wheels[0], folder)}")
                except subprocess.CalledProcessError as error:
                    problems.append(f"{where}: {error}\n{error.stdout}{error.stderr}")
    return problems


def of_pyenv(python):
    """The newest interpreter of this version that pyenv has; None without one."""
    root = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv"))
    found = sorted(root.glob(f"versions/{python}.*/bin/python"))
    return found[-1] if found else None


def tried(program, backend, wheel, folder):
    """Installs a wheel, and uses it; returns what the program printed."""
    folder = pathlib.Path(folder)
    python = environment(program, folder / "env")
    constraints = ["-c", ROOT / "tests" / "constraints.txt"]
    run([python, "-m", "pip", "install", "-q", *constraints, f"{wheel}[{backend}]"])
    settings = {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    settings["KERAS_HOME"] = str(folder)
    words = {"cwd": folder, "env": {**clean(), **settings}}
    for command in COMMANDS:
        run([python, "-m", "kerasseq", *command], **words)
    return run([python, "-c", PROGRAM], **words).strip().splitlines()[-1]


def environment(program, folder):
    """Creates a virtual environment, and returns its Python."""
    if program == sys.executable:
        venv.create(folder, with_pip=True)
    else:
        run([program, "-m", "venv", folder])
    return pathlib.Path(folder, "bin", "python")


def clean():
    """Returns the environment without variables that affect what is installed."""
    private = ("KERAS", "PYTHON", "VIRTUAL_ENV")
    return {k: v for k, v in os.environ.items() if not k.startswith(private)}


def run(words, **options):
    """Runs a command, and returns what it printed."""
    options = {"env": clean(), **options}
    words = [str(word) for word in words]
    done = subprocess.run(words, capture_output=True, text=True, check=True, **options)
    return done.stdout


if __name__ == "__main__":
    main()
