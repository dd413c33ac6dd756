"""Compiled code on disk: several processes, other users, damage, its size."""

import array
import os
import stat

import pytest

from kerasseq.core import backend

if backend.chosen() != "torch":
    pytest.skip("PyTorch's own path", allow_module_level=True)

from kerasseq.kernels.torch import compile
from tests.processes import ROOT, run_python

pytestmark = [
    pytest.mark.once("PyTorch's own path"),
    pytest.mark.skipif(not compile.is_available(), reason="llvmlite is not installed"),
]

TEXT = """
define void @give(i64 %t, ptr %table) {
  %x = add i64 %t, 23
  store i64 %x, ptr %table
  ret void
}"""


def give():
    """What the function computes from 19: 42, if the code is right."""
    table = array.array("q", [0])
    module = compile.load(TEXT)
    module.function("give")(19, table.buffer_info()[0])
    return table[0]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("KERASSEQ_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "compiled"


@pytest.fixture
def compilations(monkeypatch):
    """How often LLVM compiled."""
    found, make = [], compile._compile
    monkeypatch.setattr(compile, "_compile", lambda t: found.append(t) or make(t))
    return found


@pytest.mark.usefixtures("cache")
def test_code_is_compiled_once_and_then_read(compilations):
    assert [give() for _ in range(3)] == [42, 42, 42]
    assert len(compilations) == 1


def test_another_text_or_cpu_is_another_file(cache, monkeypatch):
    give()
    version, cpu, features = compile._target()
    monkeypatch.setattr(compile, "_target", lambda: (version + ".1", cpu, features))
    give()
    compile.load(TEXT.replace("23", "29"))
    assert len(list(cache.iterdir())) == 3


def test_folder_and_file_are_the_users_own(cache):
    give()
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700


@pytest.mark.parametrize("damage", [b"", b"damaged", None])
def test_damaged_files_are_replaced(cache, compilations, damage):
    give()
    (file,) = cache.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:-7] if damage is None else damage)
    assert give() == 42
    assert len(compilations) == 2
    assert file.read_bytes() == whole


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_folder_that_others_may_write_is_not_used(cache, compilations, mode):
    cache.mkdir(parents=True)
    cache.chmod(mode)
    assert [give(), give()] == [42, 42]
    assert len(compilations) == 2
    assert not list(cache.iterdir())


def test_folder_of_another_user_is_not_used(cache, compilations, monkeypatch):
    give()
    monkeypatch.setattr(os, "getuid", lambda: cache.stat().st_uid + 1)
    assert give() == 42
    assert len(compilations) == 2


@pytest.mark.parametrize("make", ["file", "link"])
def test_what_is_no_folder_is_not_used(cache, compilations, tmp_path, make):
    cache.parent.mkdir()
    if make == "file":
        cache.write_text("a file")
    else:
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        cache.symlink_to(tmp_path / "elsewhere")
    assert [give(), give()] == [42, 42]
    assert len(compilations) == 2


def test_without_a_home_it_compiles_in_memory(monkeypatch, compilations):
    for name in ("KERASSEQ_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(compile.pathlib.Path, "home", no_home)
    assert [give(), give()] == [42, 42]
    assert len(compilations) == 2


def test_disk_that_is_full_is_no_error(cache, compilations, monkeypatch):
    def full(path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(compile.files, "replacing", full)
    assert [give(), give()] == [42, 42]
    assert len(compilations) == 2
    assert not list(cache.iterdir())


def test_oldest_files_are_deleted_beyond_the_bound(cache, monkeypatch):
    monkeypatch.setattr(compile, "LARGEST", 3 * 132)
    for n, key in enumerate("abc"):
        compile.write(key, bytes(100))
        os.utime(cache / key, (n, n))
    assert compile.read("a") == bytes(100)  # now it was used last
    compile.write("d", bytes(100))
    assert sorted(path.name for path in cache.iterdir()) == ["a", "c", "d"]


PROCESS = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("compile", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
if sys.argv[3] == "read":
    module._compile = None
print(module.load(sys.argv[2]).function("give") is not None)
"""


def test_the_next_process_reads_what_the_first_wrote(tmp_path):
    file = ROOT / "kerasseq" / "kernels" / "torch" / "compile.py"
    for task in ("compile", "read"):
        done = run_python(PROCESS, file, TEXT, task, KERASSEQ_CACHE=str(tmp_path))
        assert done.stdout == "True\n"


def test_processes_that_write_at_once_leave_one_whole_file(cache):
    code = f"""
{PROCESS.partition("if")[0]}
for _ in range(200):
    module.write("key", bytes(99_999))
    assert module.read("key") == bytes(99_999)
"""
    import concurrent.futures

    file = ROOT / "kerasseq" / "kernels" / "torch" / "compile.py"
    place = {"KERASSEQ_CACHE": str(cache.parent)}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: run_python(code, file, **place), range(2)))
    assert [path.name for path in cache.iterdir()] == ["key"]
