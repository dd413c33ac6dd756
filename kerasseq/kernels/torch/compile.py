"""Compiles LLVM IR for this CPU, and keeps the machine code on disk.

The folder is `compiled` in that of `core.files.cache_folder`. A file is named by the
hash of the text, the CPU and the version of llvmlite, and replaced in one move, so that
several processes may use it. As its code is run, it must be the user's own: a folder
that others own or could write is not used. Files that were not used for longest are
deleted beyond `LARGEST` bytes. Where a file cannot be read or written, or is damaged,
the code is compiled in memory.
"""

import contextlib
import ctypes
import functools
import hashlib
import os
import pathlib
import stat
import weakref
from collections.abc import Callable, Sequence

from kerasseq.core import files

try:
    import llvmlite
    from llvmlite import binding as llvm
except ImportError:
    llvmlite = None

LARGEST = 64 * 2**20  # bytes of all files

# A function takes the number of the first step, and the address of a table.
SIGNATURE = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)


class Module:
    """Machine code in memory.

    Args:
        code: An object file.
    """

    def __init__(self, code: bytes) -> None:
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()

    def function(self, name: str) -> Callable[[int, int], None]:
        """Returns a function, which needs this module to stay in memory."""
        return SIGNATURE(self._engine.get_function_address(name))


_modules: weakref.WeakValueDictionary[str, Module] = weakref.WeakValueDictionary()


def is_available() -> bool:
    """Returns whether llvmlite is installed, with pointers that have no type."""
    if llvmlite is None:
        return False
    return tuple(map(int, llvmlite.__version__.split(".")[:2])) >= (0, 45)


def load(text: str) -> Module:
    """Returns the machine code of LLVM IR: from memory, from disk, or compiled."""
    key = hashlib.sha256("\n".join([*_target(), text]).encode()).hexdigest()
    module = _modules.get(key)
    if module is None:
        code = read(key)
        if code is None:
            code = _compile(text)
            write(key, code)
        module = _modules[key] = Module(code)
    return module


@functools.cache
def _target() -> tuple[str, str, str]:
    """Returns the version of llvmlite, and the CPU with its features."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten()
    return llvmlite.__version__, llvm.get_host_cpu_name(), features


def _machine():
    _, cpu, features = _target()
    triple = llvm.Target.from_default_triple()
    return triple.create_target_machine(cpu=cpu, features=features, opt=3)


def _compile(text: str) -> bytes:
    machine, module = _machine(), llvm.parse_assembly(text)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    passes = llvm.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)
    return machine.emit_object(module)


# The files.


def folder() -> pathlib.Path | None:
    """Returns the folder of compiled code; None if there is none that is safe."""
    try:
        path = files.cache_folder() / "compiled"
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)  # others must not put code there
        status = path.lstat()
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        return None
    safe = stat.S_ISDIR(status.st_mode)
    if hasattr(os, "getuid"):  # Windows protects the home of a user by other means
        safe &= status.st_uid == os.getuid()
        safe &= not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return path if safe else None


def read(key: str) -> bytes | None:
    """Returns what `write` wrote; None if there is nothing, or it is damaged."""
    place = folder()
    if place is None:
        return None
    path = place / key
    try:
        code = path.read_bytes()
        if code[:32] != hashlib.sha256(code[32:]).digest():
            return None
        os.utime(path)  # it was used just now
    except OSError:
        return None
    return code[32:]


def write(key: str, code: bytes) -> None:
    """Writes a file where possible, and deletes old ones beyond `LARGEST` bytes."""
    place = folder()
    if place is None:
        return
    with contextlib.suppress(OSError):
        with files.replacing(place / key) as temporary:
            temporary.write_bytes(hashlib.sha256(code).digest() + code)
        _bound(list(place.iterdir()))


def _bound(paths: Sequence[pathlib.Path]) -> None:
    entries = [(path.stat(), path) for path in paths]
    total = sum(status.st_size for status, _ in entries)
    for status, path in sorted(entries, key=lambda pair: pair[0].st_mtime):
        if total <= LARGEST:
            break
        path.unlink(missing_ok=True)
        total -= status.st_size
