import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kerasseq.text import Eliza
from tests.processes import run_python

# The dialogue of course A.
DIALOGUE = """\
ELIZA: Is something troubling you?
YOU: Men are all alike.
ELIZA: What is the connection, do you suppose?
YOU: They're always bugging us about something or other.
ELIZA: Can you think of any examples?
YOU: Well, my boyfriend made me come here.
ELIZA: Is it important to you that your boyfriend made you come here?
YOU: He says I'm depressed much of the time.
ELIZA: I am sorry to hear that you are depressed.
YOU: It's true, I am unhappy.
ELIZA: Can you explain what made you unhappy?
"""
ANY_TEXT = st.text(st.characters(exclude_categories=()))
LANGUAGES = ("en", "fr")
LEFT_OVER = re.compile(r"[{}]|  |\bnewkey\b|\bgoto\b")

SMALL = """
greeting = "Hello."
farewell = "Bye."
goodbyes = ["bye"]
silence = ["Hm?"]
default = ["Go on.", "I see."]
[reflections]
"my" = "your"
"me" = "you"
"i" = "you"
"you" = "I"
[reflections_at_end]
"you" = "me"
[keyword.low.rules]
"*" = ["low 1", "low 2"]
[keyword.high]
rank = 7
[keyword.high.rules]
"* high +" = ["high: {3}"]
"high low" = ["newkey"]
[keyword.other.rules]
"*" = ["goto low"]
[keyword.my.rules]
"* my +" = ["Your {3}!", "{2-3}?", "{said 2-3}."]
[keyword.my.memory]
"* my +" = ["Back to your {3}."]
[keyword.i.rules]
"i + you" = ["You {2} me?"]
"* i * me|you +" = ["{2-5}?"]
"""


@pytest.fixture
def small(tmp_path):
    """Makes an ELIZA of the small rules, with some text replaced."""

    def make(old="", new=""):
        assert old in SMALL
        path = tmp_path / "small.toml"
        path.write_text(SMALL.replace(old, new, 1) if old else SMALL, encoding="utf-8")
        return Eliza(path)

    return make


@pytest.mark.parametrize("typed", [str, str.upper, str.lower, lambda s: s[:-1]])
def test_the_dialogue_of_the_course(typed):
    lines = [line.partition(": ")[::2] for line in DIALOGUE.splitlines()]
    eliza = Eliza()
    assert lines.pop(0) == ("ELIZA", eliza.greeting)
    for (who, said), (whose, reply) in zip(lines[::2], lines[1::2], strict=True):
        assert (who, whose) == ("YOU", "ELIZA")
        assert eliza.reply(typed(said)) == reply


def test_the_rules_of_the_dialogue_are_general():
    eliza = Eliza()
    expected = "Is it important to you that your neighbour told you to sell your car?"
    assert eliza.reply("Oh, my neighbour told me to sell my car!") == expected
    said = "She thinks I'm really lonely these days."
    assert eliza.reply(said) == "I am sorry to hear that you are lonely."


@pytest.mark.parametrize("language", LANGUAGES)
def test_there_are_many_keywords(language):
    assert len(Eliza(language).keywords) >= 35


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_reply_of_every_keyword_can_be_said(language):
    """The words themselves, often enough for each list to go round."""
    eliza = Eliza(language)
    heard = set()
    for word in eliza._rules.keywords:
        for _ in range(3):
            for text in (word, f"x {word} y z", f"{word} y z", f"x {word}"):
                reply = eliza.reply(text)
                assert reply and not LEFT_OVER.search(reply)
                heard.add(reply)
    assert len(heard) > 100


def test_the_highest_rank_decides(small):
    eliza = small()
    assert eliza.reply("low high x") == "High: x"
    assert eliza.trace.keywords == (("high", 7), ("low", 0))
    lower = small("rank = 7", "rank = -1")
    assert lower.reply("high low x") == "Low 1"


def test_of_equal_ranks_the_first_word_decides(small):
    eliza = small("rank = 7", "rank = 0")
    assert eliza.reply("low high x") == "Low 1"
    assert eliza.reply("high low x") == "High: low x"


def test_replies_take_turns_and_reset_starts_anew(small):
    eliza = small()
    for _ in range(2):
        assert [eliza.reply("low") for _ in range(3)] == ["Low 1", "Low 2", "Low 1"]
        assert eliza.reply("my cat") == "Your cat!"
        eliza.reset()
        assert eliza.trace is None and eliza.memory == ()


def test_a_pattern_that_does_not_fit_leaves_the_next_keyword(small):
    eliza = small()
    assert eliza.reply("low, high") == "Low 1"
    assert eliza.reply("low and high") == "Low 2"
    assert eliza.trace.clause == "low and high"


def test_newkey_and_goto(small):
    eliza = small('"* high +" = ["high: {3}"]\n', "")
    assert eliza.reply("high low") == "Low 1"
    assert eliza.trace.steps == [("high", "high low", "newkey")]
    assert eliza.reply("other") == "Low 2"  # one turn with those of its own
    assert eliza.trace.steps == [("other", "*", "goto low")]
    assert eliza.trace.keyword == "low"


def test_the_first_clause_with_a_keyword_that_fits(small):
    eliza = small()
    assert eliza.reply("Well; my cat. low") == "Your cat!"
    assert eliza.reply("i; low, my cat") == "Low 1"
    assert eliza.reply("nothing. at 3.5, all") == "Back to your cat."


def test_memory_comes_back_once_the_oldest_first(small):
    eliza = small()
    eliza.reply("It is my cat.")
    eliza.reply("And my dog, too.")
    assert eliza.memory == ("Back to your cat.", "Back to your dog.")
    assert eliza.reply("low") == "Low 1"
    assert eliza.reply("xyz") == "Back to your cat."
    assert eliza.trace.source == "memory"
    assert eliza.trace.recalled == "It is my cat."
    assert [eliza.reply("xyz") for _ in range(4)] == [
        "Back to your dog.", "Go on.", "I see.", "Go on."
    ]  # fmt: skip


def test_the_best_keyword_keeps_even_if_it_leaves_the_reply_to_another():
    eliza = Eliza()
    assert (
        eliza.reply("I want my bike")
        == "What would it mean to you if you got your bike?"
    )
    assert eliza.trace.keyword == "i"
    assert eliza.memory == ("Let us talk some more about your bike.",)


def test_reflection_both_ways(small):
    eliza = small()
    assert eliza.reply("I hate you") == "You hate me?"
    assert eliza.reply("I think you bore me so") == "You think I bore you so?"
    assert eliza.reply("He sent my friend to you") == "Your friend to me!"
    assert eliza.reply("my x") == "Your x?"
    assert eliza.reply("My My Me") == "My My Me."


@pytest.mark.parametrize(
    ("said", "turned"),
    [
        ("I am here because you are not", "you are here because I am not"),
        ("you were my friend and I was yours", "I was your friend and you were mine"),
        ("I really am fond of you", "you really are fond of me"),
        ("am I like you", "are you like me"),
        ("I told myself that you love me", "you told yourself that I love you"),
    ],
)
def test_english_is_turned_round(said, turned):
    assert turn("en", said) == turned


@pytest.mark.parametrize(
    ("said", "turned"),
    [
        ("je suis là et j'ai mon chat", "vous êtes là et vous avez votre chat"),
        ("je parle", "vous parlez"),
        ("je préfère mes amis", "vous préférez vos amis"),
        ("je mangeais", "vous mangiez"),
        ("j'irai chez moi", "vous irez chez vous"),
        ("je finis", "vous finissez"),
        ("je prends", "vous prenez"),
        ("je comprends", "vous comprenez"),
        ("je ne me lève pas", "vous ne vous levez pas"),
        ("je vous aime", "vous m'aimez"),
        ("je t'aime", "vous m'aimez"),
        ("je n'habite plus ici", "vous n'habitez plus ici"),
        ("tu m'énerves", "je vous énerve"),
        ("tu n'es pas mon ami", "je ne suis pas votre ami"),
        ("vous n'avez pas d’humour", "je n'ai pas d'humour"),
        ("vous vous ennuyez", "je m'ennuie"),
        ("il vous aime", "il m'aime"),
        ("je compte sur vous", "vous comptez sur moi"),
        ("ta mère et ton père", "ma mère et mon père"),
        ("aujourd'hui", "aujourd'hui"),
    ],
)
def test_french_is_turned_round(said, turned):
    assert turn("fr", said) == turned


def turn(language, said):
    rules = Eliza(language)._rules
    (words,) = rules.splitter.clauses(said)
    elision = rules.splitter.elision
    return elision.join(elision.text(rules.reflection(words)))


def test_french_with_accents_elision_and_either_form_of_address():
    eliza = Eliza("fr")
    for said, reply in [
        ("Je pense qu'il me déteste.", "Qu'est-ce qui vous fait penser qu'il vous "
         "déteste ?"),
        ("je crois que tu es fâchée", "Pensez-vous vraiment que je suis fâchée ?"),
        ("Je crois que vous avez raison", "Qui d'autre pense que j'ai raison ?"),
        ("ELLE DIT QUE JE SUIS DÉPRIMÉE", "Je suis désolée d'apprendre que vous êtes "
         "déprimée."),
        ("je n'arrive pas a dormir", "À quoi pensez-vous quand vous ne dormez pas ?"),
        ("j'étais heureux", "Qu'est-ce que cela vous faisait d'être heureux ?"),
        ("Ma mere ne m’aime pas.", "Parlez-moi davantage de votre mere."),
    ]:  # fmt: skip
        assert eliza.reply(said) == reply


def test_names_keep_their_capitals_and_little_words_do_not():
    eliza = Eliza()
    assert eliza.reply("I think The boss of Ann hates NASA") == (
        "Do you really think the boss of Ann hates NASA?"
    )


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("text", ["", "  \t\n", "...", "?!", "\0", "{}", '""', "-"])
def test_nothing_said(language, text):
    eliza = Eliza(language)
    replies = [eliza.reply(text) for _ in range(2)]
    assert eliza.trace.source == "silence" and replies[0] != replies[1]


@pytest.mark.parametrize("text", ["Привет", "你好，世界", "مرحبا", "🙂", "7", "Zażółć"])
def test_other_scripts_fit_no_rule(text):
    eliza = Eliza()
    assert eliza.reply(text) == "Please go on."
    assert eliza.trace.source == "default"


@pytest.mark.parametrize("mark", ["", ".", "!!!", " ?", "…", ")", "»"])
def test_punctuation_and_case_do_not_matter(mark):
    assert Eliza().reply(f"  i AM    sad{mark}") == Eliza().reply("I am sad.")


@pytest.mark.parametrize("language", LANGUAGES)
@given(text=ANY_TEXT)
@example(text="my {2} * +")
@example(text="je \ud800 {said 1} l'")
def test_any_text_gets_a_reply(language, text):
    eliza = ELIZAS[language]
    for said in (text, f"I am {text}", f"my {text} is", f"je suis {text}", text):
        reply = eliza.reply(said)
        assert reply.strip() and not LEFT_OVER.search(reply)
        reply.encode("utf-8")
        assert str(eliza.trace).endswith(reply)


ELIZAS = {language: Eliza(language) for language in LANGUAGES}
LONG = 10**5
LONG_TEXTS = [
    "a" * LONG,
    "I am " * (LONG // 5),
    "my x is " + "you " * (LONG // 4),
    "my my " * (LONG // 6),
    "you " * (LONG // 4) + "me",
    "i," * (LONG // 2),
    "j'" * (LONG // 2),
    "a'" * (LONG // 2),
    "je ne me le " * (LONG // 12),
    "je pense que " + "vous " * (LONG // 5),
    "si j'étais " * (LONG // 11),
    " " * LONG,
    "- " * (LONG // 2),
    "." * LONG,
    "'" * LONG,
    "\u0301" * LONG,
]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("text", LONG_TEXTS, ids=lambda text: repr(text[:12]))
def test_a_very_long_line_takes_no_longer_than_its_length(language, text):
    def taken():
        eliza = Eliza(language)
        start = time.process_time()
        assert eliza.reply(text)
        return time.process_time() - start

    # At most about 0.5 s; where the time grows with the square, 10 s and more, each
    # time: one try alone may have to wait for the garbage of other tests.
    assert any(taken() < 5 for _ in range(3))


def test_goodbye():
    eliza = Eliza("fr")
    assert eliza.is_goodbye("Bon, au revoir et merci !")
    assert eliza.reply("au revoir") == eliza.farewell
    assert eliza.trace.source == "farewell"
    for said in (
        "revoir",
        "",
        "ciao bella",
        "la fin",
        "fin de la fin",
        "Mon ami dit au voisin de revoir son plan.",
    ):
        assert not eliza.is_goodbye(said)


def test_explain_tells_every_step(small):
    eliza = small()
    with pytest.raises(ValueError, match="Call `reply` first"):
        eliza.explain()
    eliza.reply("Oh, high time for my cat.")
    assert eliza.explain().splitlines() == [
        "you said   Oh, high time for my cat.",
        "clause     high time for my cat",
        "keywords   high (rank 7), my (rank 0)",
        "keyword    high",
        "pattern    * high +",
        'parts      1 "", 2 "high", 3 "time for my cat"',
        "template   high: {3}",
        'reflected  {3} "time for my cat" -> "time for your cat"',
        "reply      High: time for your cat",
    ]
    eliza.reply("my cat")
    assert "kept       Back to your cat." in eliza.explain()
    eliza.reply("other")
    assert "step       other: *: goto low" in eliza.explain()
    for said, line in [
        ("xyz", "memory     nothing fits; from earlier: my cat"),
        ("xyz", "rule       nothing fits, and the memory is empty"),
        ("", "rule       the remark has no words"),
        ("bye", "rule       the remark says goodbye"),
    ]:
        eliza.reply(said)
        assert line in eliza.explain()


def test_no_keyword_is_lost_from_the_explanation_when_none_fits(small):
    eliza = small()
    eliza.reply("so high. and then")
    assert eliza.trace.source == "default"
    assert eliza.trace.clause == "so high"
    assert eliza.trace.keywords == (("high", 7),)


def test_one_conversation_knows_nothing_of_another():
    one, other = Eliza(), Eliza()
    one.reply("I am sad")
    assert other.memory == () and other.trace is None
    assert other.reply("I am sad") == "I am sorry to hear that you are sad."


@pytest.mark.parametrize("text", [None, b"hello", 3])
def test_what_is_said_must_be_a_string(text):
    for use in (Eliza().reply, Eliza().is_goodbye):
        with pytest.raises(TypeError, match="`text` must be a string"):
            use(text)


def test_no_keras_and_no_toml_reader_is_loaded():
    run_python("""
import sys
import kerasseq.text
assert not {"keras", "tomllib"} & set(sys.modules)
assert kerasseq.text.Eliza().reply("hello")
assert "keras" not in sys.modules
""")
