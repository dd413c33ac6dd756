"""Chat templates: equal to those of transformers, saved, and split into answers."""

import json

import pytest

from kerasseq import text
from kerasseq.text import ChatTemplate, JinjaTemplate, WordTokenizer
from kerasseq.text.chat import answers

pytestmark = pytest.mark.once("no tensors")

CHATML = """{% for message in messages %}
{{ '<|im_start|>' + message['role'] + '\n' + message['content'] | trim }}
{%- if message['role'] == 'assistant' %}
{%- generation %}{{ eos_token }}{% endgeneration %}
{%- else %}{{ '<|im_end|>' }}{% endif %}{{ '\n' }}
{%- endfor %}
{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"""
TALK = [
    {"role": "system", "content": "Be short."},
    {"role": "user", "content": "Hi, who are you?"},
    {"role": "assistant", "content": "A model."},
    {"role": "user", "content": "Why?"},
    {"role": "assistant", "content": "It is not known!"},
]


def words(template=None, **options):
    """A tokenizer of words with the special tokens of a template."""
    special = ChatTemplate().special_tokens
    tokenizer = WordTokenizer(special_tokens=special, **options)
    tokenizer.fit([message["content"] for message in TALK])
    tokenizer.chat_template = ChatTemplate() if template is None else template
    return tokenizer


@pytest.mark.parametrize("prompt", [False, True])
def test_jinja_equals_transformers(prompt):
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    theirs = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0})),
        eos_token="</s>",
        chat_template=CHATML,
    )
    expected = theirs.apply_chat_template(
        TALK, tokenize=False, add_generation_prompt=prompt
    )
    ours = text.as_tokenizer(theirs)
    assert ours.chat_template == JinjaTemplate(CHATML, {"eos_token": "</s>"})
    options = {"tokenize": False, "add_generation_prompt": prompt}
    assert ours.apply_chat_template(TALK, **options) == expected


@pytest.mark.parametrize("kind", ["ours", "jinja"])
def test_parts_are_the_whole_conversation(kind):
    template = ChatTemplate() if kind == "ours" else JinjaTemplate(CHATML)
    parts = answers.parts(template, TALK)
    assert "".join(part for part, _ in parts) == template.render(TALK)
    written = [part for part, is_written in parts if is_written]
    assert written[0] == "A model." and "It is not known!" in written
    asked = answers.parts(template, TALK[:4], add_generation_prompt=True)
    assert not asked[-1][1]
    assert "".join(part for part, _ in asked) == template.render(TALK[:4], True)


def test_an_answer_is_read_as_it_is_written():
    # Joined, "." and the line would be one token of the byte-pair tokenizer.
    template = ChatTemplate(user="\nQ: ", assistant="\nA: ", system="", end="\n")
    parts = answers.parts(template, TALK[1:3])
    assert parts[1:] == [("A model.", True), ("\n", True)]
    assert answers.end_of_answer(template) == "\n"
    assert answers.end_of_answer(JinjaTemplate(CHATML, {"eos_token": "!"})) == "!\n"


@pytest.mark.parametrize(
    "tokenizer",
    [
        words(),
        words(JinjaTemplate("{% for m in messages %}{{ m.content }}{% endfor %}")),
        text.CharacterTokenizer().fit("ab"),
        text.BytePairTokenizer(270).fit("abab"),
        text.UnigramTokenizer(265).fit("abab abab"),
        text.WordPieceTokenizer(20).fit("ab abab"),
        text.RWKVTokenizer([b"a", b"b"]).padded(3),
    ],
    ids=lambda each: type(each).__name__,
)
def test_the_template_is_saved_with_the_tokenizer(tokenizer, tmp_path):
    if tokenizer.chat_template is None:
        plain = tokenizer.get_config()
        assert "chat_template" not in plain  # as in files of older versions
        end = next(
            text
            for text in map(tokenizer.decode, range(tokenizer.vocabulary_size))
            if tokenizer.encode(text).size == 1 and text != tokenizer.unknown
        )
        tokenizer.chat_template = ChatTemplate(end=end)
        assert tokenizer != type(tokenizer).from_config(plain)
    tokenizer.save(tmp_path / "t.json")
    loaded = text.load_tokenizer(tmp_path / "t.json")
    assert loaded == tokenizer
    assert loaded.chat_template == tokenizer.chat_template
    again = type(tokenizer).from_config(json.loads(json.dumps(loaded.get_config())))
    assert again.chat_template == tokenizer.chat_template


def test_padded_keeps_the_template():
    tokenizer = text.RWKVTokenizer([b"a"])
    tokenizer.chat_template = ChatTemplate(end="a")
    assert tokenizer.padded(3).chat_template == ChatTemplate(end="a")


def test_special_tokens_are_never_split():
    tokenizer = words()
    ids = tokenizer.apply_chat_template(TALK[1:3])
    tokens = [tokenizer.vocabulary[i] for i in ids]
    assert tokens[0] == "<|user|>" and tokens[-1] == "<|end|>"
    assert tokens.count("<|assistant|>") == 1
    assert tokenizer.decode(ids, skip_special=True) == "Hi, who are you? A model."


@pytest.mark.parametrize(
    ("options", "error", "word"),
    [
        ({"end": ""}, ValueError, "end must be a token of its own"),
        ({"user": "a", "end": "a"}, ValueError, "end must be a token of its own"),
        ({"system": None}, TypeError, "system must be a string, received None"),
    ],
)
def test_wrong_templates(options, error, word):
    with pytest.raises(error, match=word):
        ChatTemplate(**options)


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("{% for m in messages %}", "must be in Jinja.*Unexpected end"),
        ("{{ raise_exception('no ' + messages[0].role) }}", "it reports: no system"),
        ("{{ messages[0].content.nothing.more }}", "it reports: .*no attribute"),
        ("{{ messages.append(1) }}", "it reports: .*unsafe"),
        ("{{ ''.__class__.__mro__ }}", "it reports: .*unsafe"),
    ],
)
def test_wrong_jinja(source, word):
    with pytest.raises(ValueError, match=word):
        JinjaTemplate(source).render(TALK)


@pytest.mark.parametrize(
    ("messages", "error", "word"),
    [
        ("Hi", TypeError, "messages must be a list of"),
        ([], ValueError, r"at least one message, received \[\]"),
        (["Hi"], TypeError, r"messages\[0\] must have role and content"),
        ([{"role": "user"}], TypeError, r"messages\[0\] must have role and content"),
        ([{"role": "me", "content": "Hi"}], ValueError, "system, user or assistant"),
        ([{"role": "user", "content": ""}], ValueError, "must not be empty"),
        ([{"role": "user", "content": [1]}], TypeError, "must be a string"),
        (TALK[:2], ValueError, "must have an answer"),
        (TALK[2:3], ValueError, "must have an answer"),
    ],
)
def test_wrong_messages(messages, error, word):
    with pytest.raises(error, match=word):
        answers.parts(ChatTemplate(), messages)


@pytest.mark.parametrize(
    "tokenizer",
    [
        text.CharacterTokenizer().fit("ab"),
        text.CharacterTokenizer(unknown=None).fit("ab"),
        text.WordTokenizer().fit("a b"),
        text.BytePairTokenizer(270).fit("abab"),
    ],
    ids=["unknown", "an error", "words", "several"],
)
def test_an_answer_ends_with_one_token(tokenizer):
    with pytest.raises(ValueError, match=r"received end='<\|end\|>', which is not"):
        tokenizer.chat_template = ChatTemplate()
    assert tokenizer.chat_template is None
    tokenizer.chat_template = ChatTemplate(end="b")


def test_a_template_that_changes_what_is_before():
    last = "{{ messages[-1].content }}"
    with pytest.raises(ValueError, match="write each message after those before it"):
        answers.parts(JinjaTemplate(last), TALK)


def test_without_a_template():
    with pytest.raises(ValueError, match=r"tokenizer.chat_template = kerasseq\.text"):
        text.CharacterTokenizer().fit("ab").apply_chat_template(TALK)
    with pytest.raises(TypeError, match="chat_template must be"):
        text.CharacterTokenizer().chat_template = 3
