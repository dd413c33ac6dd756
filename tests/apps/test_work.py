"""The worker of the app: what it imports is exempt from garbage collection."""

import gc
import sys

import pytest

from parts import work

pytestmark = pytest.mark.once("the worker of the app")


def test_imports_are_exempt_from_garbage_collection(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "a_new_module.py").write_text("rows = [[n] for n in range(10_000)]")
    worker = work.Worker()

    def imports():
        import a_new_module

        return len(a_new_module.rows)

    worker.run(len, "ab")
    before = gc.get_freeze_count()
    assert worker.run(imports) == 10_000
    after = gc.get_freeze_count()
    assert after - before >= 10_000

    kept = [[n] for n in range(10_000)]  # without an import nothing more is exempt
    worker.run(len, kept)
    assert gc.get_freeze_count() <= after
    del sys.modules["a_new_module"]
