"""Prints the misspelled words; the exit code is 1 if there are some."""

import sys

from docs import spelling

if not spelling.available():
    sys.exit(
        "The check needs hunspell and its dictionaries: "
        "apt-get install hunspell hunspell-en-us hunspell-fr"
    )
found = spelling.problems()
for name, words in found.items():
    print(f"{name}: {', '.join(words)}")
if found:
    print("Correct them, or add right words to docs/spelling/words.txt")
sys.exit(bool(found))
