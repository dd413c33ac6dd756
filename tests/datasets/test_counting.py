"""Texts that count in number words."""

import pytest

from kerasseq.datasets import counting, number_word

pytestmark = pytest.mark.once("plain Python")


@pytest.mark.parametrize(("largest", "step"), [(99, 1), (11, 1), (99, -1), (12, 5)])
def test_sentences_count_on(largest, step):
    numbers = {number_word(n): n for n in range(largest + 1)}
    documents = counting(40, largest=largest, seed=7, step=step)
    assert len(documents) == 40
    for document in documents:
        assert 2 <= len(document) <= 9
        found = []
        for sentence in document:
            assert sentence.endswith(" .")
            words, start = sentence.split()[:-1], len(found)
            while words:  # the longest number first: "twenty one", not "twenty"
                name = next(
                    " ".join(words[:n])
                    for n in (2, 1)
                    if " ".join(words[:n]) in numbers
                )
                found.append(numbers[name])
                words = words[len(name.split()) :]
            assert 3 <= len(found) - start <= 6
        period = largest + 1
        assert found == [(found[0] + n * step) % period for n in range(len(found))]
    firsts = {document[0] for document in documents}
    assert len(firsts) > 10


def test_seed_and_bounds():
    assert counting(3, seed=1) == counting(5, seed=1)[:3] != counting(3, seed=2)
    with pytest.raises(ValueError, match="largest must be at most 99, received 100"):
        counting(1, largest=100)
    with pytest.raises(ValueError, match="size"):
        counting(0)
    with pytest.raises(ValueError, match="step must not be 0"):
        counting(1, step=0)
    with pytest.raises(TypeError, match="step"):
        counting(1, step=0.5)
    for wrong in (-1, 100):
        with pytest.raises(ValueError, match="number must be at"):
            number_word(wrong)
