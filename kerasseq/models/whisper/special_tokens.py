"""The special tokens of Whisper's tokenizers, in the order of their ids.

Radford et al., "Robust Speech Recognition via Large-Scale Weak Supervision", 2022,
section 2.3. The published vocabularies end with them: the end of text, the start, a
token for each language, the tasks, the marks, and a time for each 20 ms of 30 s.
"""

from collections.abc import Iterable

from kerasseq.text.tokenizers.byte_pair_tokenizer import BytePairTokenizer

END = "<|endoftext|>"
START = "<|startoftranscript|>"
TASKS = ("translate", "transcribe")
LANGUAGE_MODEL = "<|startoflm|>"
PREVIOUS = "<|startofprev|>"
NO_SPEECH = ("<|nospeech|>", "<|nocaptions|>")  # the name in older files comes second
NO_TIMESTAMPS = "<|notimestamps|>"
NUM_TIMESTAMPS = 1501  # 0.00 to 30.00 s

# Codes and English names; Cantonese came with large-v3.
_LANGUAGES = """
en=english zh=chinese de=german es=spanish ru=russian ko=korean fr=french
ja=japanese pt=portuguese tr=turkish pl=polish ca=catalan nl=dutch
ar=arabic sv=swedish it=italian id=indonesian hi=hindi fi=finnish
vi=vietnamese he=hebrew uk=ukrainian el=greek ms=malay cs=czech
ro=romanian da=danish hu=hungarian ta=tamil no=norwegian th=thai ur=urdu
hr=croatian bg=bulgarian lt=lithuanian la=latin mi=maori ml=malayalam
cy=welsh sk=slovak te=telugu fa=persian lv=latvian bn=bengali sr=serbian
az=azerbaijani sl=slovenian kn=kannada et=estonian mk=macedonian
br=breton eu=basque is=icelandic hy=armenian ne=nepali mn=mongolian
bs=bosnian kk=kazakh sq=albanian sw=swahili gl=galician mr=marathi
pa=punjabi si=sinhala km=khmer sn=shona yo=yoruba so=somali af=afrikaans
oc=occitan ka=georgian be=belarusian tg=tajik sd=sindhi gu=gujarati
am=amharic yi=yiddish lo=lao uz=uzbek fo=faroese ht=haitian_creole
ps=pashto tk=turkmen nn=nynorsk mt=maltese sa=sanskrit lb=luxembourgish
my=myanmar bo=tibetan tl=tagalog mg=malagasy as=assamese tt=tatar
haw=hawaiian ln=lingala ha=hausa ba=bashkir jw=javanese su=sundanese
yue=cantonese
"""
LANGUAGES: dict[str, str] = {
    code: name.replace("_", " ")
    for code, name in (pair.split("=") for pair in _LANGUAGES.split())
}
# Other names that people give.
ALIASES = {
    "burmese": "my",
    "castilian": "es",
    "flemish": "nl",
    "haitian": "ht",
    "mandarin": "zh",
    "moldovan": "ro",
    "sinhalese": "si",
    "valencian": "ca",
}


def token_of(word: str) -> str:
    """Returns the token of a language or task.

    Examples:
        >>> token_of("en"), token_of("translate")
        ('<|en|>', '<|translate|>')
    """
    return f"<|{word}|>"


def timestamp_tokens() -> list[str]:
    """Returns the tokens of times, from 0 to 30 seconds.

    Examples:
        >>> tokens = timestamp_tokens()
        >>> len(tokens), tokens[1], tokens[-1]
        (1501, '<|0.02|>', '<|30.00|>')
    """
    return [token_of(f"{n / 50:.2f}") for n in range(NUM_TIMESTAMPS)]


def whisper_special_tokens(languages: Iterable[str] = tuple(LANGUAGES)) -> list[str]:
    """Returns the special tokens of a tokenizer of Whisper in the order of their ids.

    Args:
        languages: Codes of the languages.

    Examples:
        >>> tokens = whisper_special_tokens(["en", "de"])
        >>> tokens[:6]
        ['<|endoftext|>', '<|startoftranscript|>', '<|en|>', '<|de|>', \
'<|translate|>', '<|transcribe|>']
        >>> tokens[6:10], len(tokens)
        (['<|startoflm|>', '<|startofprev|>', '<|nospeech|>', '<|notimestamps|>'], 1511)
    """
    marks = [LANGUAGE_MODEL, PREVIOUS, NO_SPEECH[0], NO_TIMESTAMPS]
    words = [token_of(word) for word in (*languages, *TASKS)]
    return [END, START, *words, *marks, *timestamp_tokens()]


def extended(tokenizer: BytePairTokenizer, added: Iterable[str]) -> BytePairTokenizer:
    """Returns a byte-pair tokenizer with special tokens after its own.

    Args:
        tokenizer: A fitted tokenizer.
        added: The special tokens.

    Examples:
        >>> tokenizer = BytePairTokenizer(5, level="character").fit("abc")
        >>> extended(tokenizer, ["<|en|>"]).vocabulary
        ['a', 'b', 'c', '<|en|>']
    """
    added = list(added)
    config = tokenizer.get_config()
    return BytePairTokenizer.from_config(
        {
            **config,
            "vocabulary_size": tokenizer.vocabulary_size + len(added),
            "special_tokens": [*tokenizer.special_tokens, *added],
            "vocabulary": [*tokenizer.vocabulary, *added],
        }
    )
