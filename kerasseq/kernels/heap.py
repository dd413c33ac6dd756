"""How the C library treats the memory that training frees and asks for again."""

import functools

import numpy as np

LARGEST = 31 * 2**20  # bytes; glibc learns nothing from blocks of 32 MB and more


@functools.cache
def keep_pages():
    """Let the allocator keep what is freed, up to some 60 MB.

    Each training step frees arrays of some megabytes and asks for them again. glibc
    gives such blocks back to the system at once, which then has to clear every page of
    the next ones: this was measured to cost a third of a step. After it has seen one
    larger block come and go it keeps them (`M_MMAP_THRESHOLD` in its manual). No page
    of this block is ever touched; other C libraries do not care.
    """
    np.empty(LARGEST, "uint8")
