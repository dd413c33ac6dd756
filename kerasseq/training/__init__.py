"""Metrics, schedules, batches, token masking, and checkpoints to resume from."""

from typing import TYPE_CHECKING

from kerasseq.core import backend
from kerasseq.core.namespace import explain_calls as _explain_calls
from kerasseq.core.namespace import missing_name as _missing_name

backend.require()

from kerasseq.core.ctc_labels import check_ctc_labels  # noqa: E402
from kerasseq.training.batches import ArrayBatches, TextBatches  # noqa: E402
from kerasseq.training.bootstrap import bootstrap_f1  # noqa: E402
from kerasseq.training.checkpoint import (  # noqa: E402
    Checkpoint,
    batches_done,
    restore,
)
from kerasseq.training.code_perplexity import CodePerplexity  # noqa: E402
from kerasseq.training.ctc import CTC  # noqa: E402
from kerasseq.training.denoising import Denoising  # noqa: E402
from kerasseq.training.dpo import DPO  # noqa: E402
from kerasseq.training.entity_scores import (  # noqa: E402
    Entity,
    entities,
    entity_scores,
)
from kerasseq.training.error_rates import (  # noqa: E402
    character_error_rate,
    word_error_rate,
)
from kerasseq.training.forecast_optimum import (  # noqa: E402
    ForecastExcess,
    ForecastOptimum,
    forecast_excess,
)
from kerasseq.training.grpo import GRPO  # noqa: E402
from kerasseq.training.image_batches import ImageBatches  # noqa: E402
from kerasseq.training.known_optimum import (  # noqa: E402
    Excess,
    KnownOptimum,
    excess,
)
from kerasseq.training.label_reports import (  # noqa: E402
    LabelReport,
    label_report,
)
from kerasseq.training.label_scores import (  # noqa: E402
    classification_report,
    confusion_matrix,
    multilabel_f1,
)
from kerasseq.training.masked_lm import (  # noqa: E402
    MaskedLMMaskGenerator,
    MaskedTokens,
)
from kerasseq.training.metrics import (  # noqa: E402
    BitsPerCharacter,
    Perplexity,
    TokenAccuracy,
)
from kerasseq.training.optimizers import gpt_optimizer  # noqa: E402
from kerasseq.training.pair_batches import PairBatches  # noqa: E402
from kerasseq.training.parallel import is_first_process, on_devices  # noqa: E402
from kerasseq.training.power_law import PowerLaw, power_law  # noqa: E402
from kerasseq.training.ratings import Ratings, elo, ratings  # noqa: E402
from kerasseq.training.reinforcement import Reinforcement  # noqa: E402
from kerasseq.training.scheduled_sampling import ScheduledSampling  # noqa: E402
from kerasseq.training.sentence_pairs import (  # noqa: E402
    MaskedPairs,
    SentencePairs,
)
from kerasseq.training.span_corruption import SpanCorruption  # noqa: E402
from kerasseq.training.steps import steps_to_reach  # noqa: E402
from kerasseq.training.translation import bleu, chrf, exact_match  # noqa: E402
from kerasseq.training.translation_parts import (  # noqa: E402
    LengthBleu,
    NameScores,
    bleu_by_length,
    bootstrap_bleu,
    name_scores,
    unseen_names,
)

__all__ = [
    "ArrayBatches",
    "BitsPerCharacter",
    "CTC",
    "Checkpoint",
    "CodePerplexity",
    "DPO",
    "Denoising",
    "Entity",
    "Excess",
    "ForecastExcess",
    "ForecastOptimum",
    "GRPO",
    "ImageBatches",
    "KnownOptimum",
    "LabelReport",
    "LengthBleu",
    "MaskedTokens",
    "MaskedLMMaskGenerator",
    "MaskedPairs",
    "NameScores",
    "PairBatches",
    "Perplexity",
    "PowerLaw",
    "Ratings",
    "Reinforcement",
    "ScheduledSampling",
    "SentencePairs",
    "SpanCorruption",
    "TextBatches",
    "TokenAccuracy",
    "batches_done",
    "bleu",
    "bleu_by_length",
    "bootstrap_bleu",
    "bootstrap_f1",
    "character_error_rate",
    "check_ctc_labels",
    "chrf",
    "classification_report",
    "confusion_matrix",
    "elo",
    "entities",
    "entity_scores",
    "exact_match",
    "excess",
    "forecast_excess",
    "gpt_optimizer",
    "label_report",
    "multilabel_f1",
    "name_scores",
    "is_first_process",
    "on_devices",
    "power_law",
    "ratings",
    "restore",
    "steps_to_reach",
    "unseen_names",
    "word_error_rate",
]

# Loaded by the tasks alone, and explained with the others.
from kerasseq.training import label_batches as _label_batches  # noqa: E402, F401

_explain_calls(__name__)
if not TYPE_CHECKING:  # a checker knows the names by itself
    __getattr__ = _missing_name(__name__)
