import re
from collections import Counter, defaultdict

import numpy as np
import pytest

from kerasseq import datasets
from kerasseq.datasets import (
    FamilyTree,
    family_labels,
    family_sentences,
    unlabeled_family_sentences,
)
from kerasseq.datasets.family_grammar import LABELS, Grammar, plan
from kerasseq.datasets.family_rules import Rules
from kerasseq.datasets.family_sentences import sentence_key
from kerasseq.datasets.misspelling import variants

pytestmark = pytest.mark.once("the data are text")

# Of slides E, in 330 texts.
SUPPORT = {
    **{"+": 72, "-": 63, "0": 47, "i": 146, "j": 263},
    **{"f": 36, "s": 57, "p": 124, "m": 123, "a": 72, "t": 23},
}


@pytest.fixture(scope="module", params=[0, 1])
def parts(request):
    return family_sentences(seed=request.param)


def forms(trees):
    return {word for tree in trees for word in re.findall(r"[\w-]+", str(tree).lower())}


def test_sizes_and_frequencies_are_those_of_the_slides(parts):
    assert [len(part.texts) for part in parts] == [1318, 330]
    for part in parts:
        assert part.names == LABELS == tuple(SUPPORT)
        counts = Counter(label for labels in part.labels for label in labels)
        size = len(part.texts)
        assert round(sum(counts.values()) / size, 1) == 3.1
        for label, support in SUPPORT.items():
            assert abs(counts[label] / size / (support / 330) - 1) < 0.1, label


def test_words_and_sentences_are_many(parts):
    training, test = parts
    assert len(forms(training.trees + test.trees)) >= 800
    assert len({sentence_key(tree) for tree in training.trees + test.trees}) >= 1500


def test_training_has_no_sentence_of_the_test_and_not_all_of_its_words(parts):
    training, test = parts
    shown = {sentence_key(tree) for tree in training.trees}
    assert not shown & {sentence_key(tree) for tree in test.trees}
    new = forms(test.trees) - forms(training.trees)
    assert len(new) > 50
    assert sum(bool(new & forms([tree])) for tree in test.trees) > 66  # a fifth
    assert not any(re.search("[Ee]st-ce qu", text) for text in training.texts)
    assert any(re.search("[Ee]st-ce qu", text) for text in test.texts)


def test_a_rule_that_sees_the_derivation_is_always_right(parts):
    for part in parts:
        assert [family_labels(tree) for tree in part.trees] == part.labels


def test_three_in_a_hundred_words_are_misspelled(parts):
    pairs = [
        (written.strip(".!").lower(), right.strip(".!").lower())
        for part in parts
        for text, tree in zip(part.texts, part.trees, strict=True)
        for written, right in zip(text.split(" "), str(tree).split(" "), strict=True)
    ]
    wrong = [(written, right) for written, right in pairs if written != right]
    assert 0.025 < len(wrong) / len(pairs) < 0.035
    assert ("à", "a") in wrong or ("a", "à") in wrong


def test_errors_can_be_left_out():
    training, _ = family_sentences(97, errors=0.0)
    for text, tree in zip(training.texts, training.trees, strict=True):
        assert text.rstrip(".!").lower() == str(tree).rstrip("!").lower()


def test_word_order_and_negation_decide_between_equal_words():
    """The same words in another order have the opposite valence."""
    rules = Rules(Grammar("training", np.random.default_rng(0)))
    found = defaultdict(set)
    for _ in range(3000):
        tree = rules.text("+-"[int(rules.grammar.rng.random() * 2)], "jm")
        words = " ".join(sorted(sentence_key(tree).split()))
        found[words].add((sentence_key(tree), family_labels(tree)[0]))
    both = [each for each in found.values() if {v for _, v in each} == {"+", "-"}]
    assert len(both) >= 3


def kinds(tree):
    found = {tree.kind}
    for child in tree.children:
        found |= set() if isinstance(child, str) else kinds(child)
    return found


def test_each_turn_occurs_with_both_valences(parts):
    for part in parts:
        seen = defaultdict(set)
        for tree, labels in zip(part.trees, part.labels, strict=True):
            for kind in kinds(tree):
                seen[kind].add(labels[0])
        for kind in ("not", "irony", "before"):
            assert {"+", "-"} <= seen[kind], kind
        assert seen["balance"] == {"0"}


def clause(valence, *children):
    return FamilyTree("clause", valence, children)


def test_rule_of_nested_trees():
    me, mother = (FamilyTree("person", label, (label,)) for label in "jm")
    denied = FamilyTree("not", "", (clause("-", me, mother),))
    assert family_labels(denied) == ["+", "j", "m"]
    assert family_labels(FamilyTree("irony", "", (denied, "mon œil"))) == [
        "-",
        "j",
        "m",
    ]
    before = FamilyTree("before", "", (denied,))
    now = clause("-", me)
    assert family_labels(FamilyTree("text", "", (before, now))) == ["-", "j", "m"]
    assert family_labels(FamilyTree("text", "", (clause("i", mother),))) == ["i", "m"]
    mixed = FamilyTree("text", "", (clause("-", me), clause("+", mother)))
    assert family_labels(mixed) == ["+", "-", "j", "m"]
    balance = FamilyTree("balance", "", (clause("-", me), denied))
    assert family_labels(balance) == ["0", "j", "m"]


def test_french_is_elided_and_contracted(parts):
    for part in parts:
        for tree in part.trees:
            text = str(tree)
            assert not re.search(r"\b([jmtsn]e|que|de) [aeiouéèê](?!nze)", text), text
            assert not re.search(r"\b(à|de) les?\b|[{}<>\[\]|*%]|  | ,| \.", text), text


def test_seeds_repeat_and_differ():
    first, again, other = (family_sentences(53, seed=seed) for seed in (3, 3, 4))
    assert first == again
    assert first[0].texts != other[0].texts


@pytest.mark.parametrize("size", [1, 7, 331])
def test_sizes_can_be_chosen(size):
    training, test = family_sentences(size, test=0.5)
    assert len(training.texts) + len(test.texts) == size
    assert [family_labels(tree) for tree in test.trees] == test.labels


def test_the_plan_has_the_supports_of_the_slides():
    drawn = plan(330, np.random.default_rng(0))
    for label in "jfspmat":
        assert sum(label in people for _, people in drawn) == SUPPORT[label]


def test_unlabeled_sentences_have_none_of_the_test():
    training, test = family_sentences()
    texts = unlabeled_family_sentences(4001, excluded=test, errors=0.0)
    assert len(set(texts)) == len(texts) == 4001
    keys = {sentence_key(FamilyTree("text", "", (text,))) for text in texts}
    assert not keys & {sentence_key(tree) for tree in test.trees}
    # Some of the words that labeled training lacks, but not all.
    words = {word for text in texts for word in re.findall(r"[\w-]+", text.lower())}
    new = forms(test.trees) - forms(training.trees)
    assert len(new & words) > 20
    assert len(new - words) > 20


def test_variants_keep_marks_and_never_the_word():
    assert variants("sœur,", [("sœur", "seur")]) == ["seur,"]
    for word in ("mère", "fâchent", "élève", "de", "1975", ""):
        assert word not in variants(word)
    assert variants("1975") == []


def test_wrong_arguments():
    with pytest.raises(ValueError, match="`?size`? must be"):
        family_sentences(0)
    with pytest.raises(ValueError, match="test must lie between 0 and 1"):
        family_sentences(test=1.5)
    with pytest.raises(ValueError, match="errors must lie between 0 and 1"):
        family_sentences(errors=3)
    with pytest.raises(TypeError, match="`seed` must be a whole number"):
        family_sentences(seed="now")
    with pytest.raises(TypeError, match="`excluded` must be a test set"):
        unlabeled_family_sentences(5, excluded=["Bonjour."])


def test_lines_of_the_catalogue():
    (line,) = datasets.sample("family", 1)
    text, _, labels = line.partition("\t")
    assert text
    assert set(labels.split()) <= set(LABELS)
