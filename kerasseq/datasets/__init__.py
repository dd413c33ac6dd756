"""Data sets that are generated, or included in installed packages.

Only `download_pairs` uses the network.
"""

from typing import TYPE_CHECKING

from kerasseq.core.files import cache_folder
from kerasseq.core.namespace import explain_calls as _explain_calls
from kerasseq.core.namespace import missing_name as _missing_name
from kerasseq.datasets.alignments import AlignedPair, aligned_sentences
from kerasseq.datasets.analogies import Analogies, analogies
from kerasseq.datasets.audio_folder import WaveFiles, audio_folder
from kerasseq.datasets.autoregressive import AutoregressiveProcess
from kerasseq.datasets.captioned_images import CaptionedImages, captioned_images
from kerasseq.datasets.catalogue import Entry, catalogue, generated_pairs, sample
from kerasseq.datasets.conversation_files import read_conversations
from kerasseq.datasets.conversations import Conversations, conversations
from kerasseq.datasets.corrected_sentences import corrections
from kerasseq.datasets.counting import counting, number_word
from kerasseq.datasets.dates import dates
from kerasseq.datasets.digits import digits_folder
from kerasseq.datasets.family_grammar import FamilyTree, family_labels
from kerasseq.datasets.family_sentences import (
    FamilySentences,
    family_sentences,
    unlabeled_family_sentences,
)
from kerasseq.datasets.film_order import FilmHalves, film_halves
from kerasseq.datasets.homonym_sentences import Homonyms, HomonymSentence, homonyms
from kerasseq.datasets.image_folder import LabeledImages, image_files, image_folder
from kerasseq.datasets.image_reading import read_image
from kerasseq.datasets.last_word_passages import LastWords, Passage, last_words
from kerasseq.datasets.markov import MarkovSource, markov_source
from kerasseq.datasets.melody_grammar import melodies
from kerasseq.datasets.memory_tasks import Chains, CopyBits, chains, copy_bits
from kerasseq.datasets.morse import morse, morse_code
from kerasseq.datasets.named_sentences import NamedSentence, named_sentences
from kerasseq.datasets.names import LabeledTexts, names_by_language
from kerasseq.datasets.noisy_parentheses import NoisyParentheses, noisy_parentheses
from kerasseq.datasets.number_names import number_names
from kerasseq.datasets.pair_downloads import PairSource, download_pairs, pair_sources
from kerasseq.datasets.pair_files import Problem, Report, read_pairs
from kerasseq.datasets.pairs import Pairs, split
from kerasseq.datasets.parentheses import (
    Parentheses,
    is_balanced,
    parentheses,
)
from kerasseq.datasets.preference_files import read_preferences
from kerasseq.datasets.preferences import Preferences, preferences
from kerasseq.datasets.python_tokens import python_tokens
from kerasseq.datasets.recordings import Recordings
from kerasseq.datasets.role_grammar import RoleSentence, role_sentences
from kerasseq.datasets.scene_set import Scenes
from kerasseq.datasets.scene_tones import SceneTones
from kerasseq.datasets.scenes import scenes
from kerasseq.datasets.series import (
    Series,
    calendar_features,
    season_features,
    series,
    windows,
)
from kerasseq.datasets.shard_writing import prepare_shards
from kerasseq.datasets.slide_examples import SlideExample, SlideNumber, slides
from kerasseq.datasets.spoken_digits import SpokenDigits, spoken_digits
from kerasseq.datasets.symbol_tasks import (
    copy_task,
    reverse_task,
    sort_task,
    symbol_ids,
)
from kerasseq.datasets.tagged import Tagged, read_tagged
from kerasseq.datasets.text import python_reference, text_file
from kerasseq.datasets.token_shards import TokenShards
from kerasseq.datasets.wave_files import read_wave, write_wave

__all__ = [
    "AlignedPair",
    "Analogies",
    "AutoregressiveProcess",
    "CaptionedImages",
    "Chains",
    "Conversations",
    "CopyBits",
    "Entry",
    "FamilySentences",
    "FamilyTree",
    "FilmHalves",
    "HomonymSentence",
    "Homonyms",
    "LabeledImages",
    "LabeledTexts",
    "LastWords",
    "MarkovSource",
    "NamedSentence",
    "NoisyParentheses",
    "PairSource",
    "Pairs",
    "Parentheses",
    "Passage",
    "Preferences",
    "Problem",
    "Recordings",
    "Report",
    "RoleSentence",
    "SceneTones",
    "Scenes",
    "Series",
    "SlideExample",
    "SlideNumber",
    "SpokenDigits",
    "Tagged",
    "TokenShards",
    "WaveFiles",
    "aligned_sentences",
    "analogies",
    "audio_folder",
    "cache_folder",
    "calendar_features",
    "captioned_images",
    "catalogue",
    "chains",
    "conversations",
    "copy_bits",
    "copy_task",
    "corrections",
    "counting",
    "dates",
    "digits_folder",
    "download_pairs",
    "family_labels",
    "family_sentences",
    "film_halves",
    "generated_pairs",
    "homonyms",
    "image_files",
    "image_folder",
    "is_balanced",
    "last_words",
    "markov_source",
    "melodies",
    "morse",
    "morse_code",
    "named_sentences",
    "names_by_language",
    "noisy_parentheses",
    "number_names",
    "number_word",
    "pair_sources",
    "parentheses",
    "preferences",
    "prepare_shards",
    "python_reference",
    "python_tokens",
    "read_conversations",
    "read_image",
    "read_pairs",
    "read_preferences",
    "read_tagged",
    "read_wave",
    "reverse_task",
    "role_sentences",
    "sample",
    "scenes",
    "season_features",
    "series",
    "slides",
    "sort_task",
    "split",
    "spoken_digits",
    "symbol_ids",
    "text_file",
    "unlabeled_family_sentences",
    "windows",
    "write_wave",
]

_explain_calls(__name__)
if not TYPE_CHECKING:  # a checker knows the names by itself
    __getattr__ = _missing_name(__name__)
