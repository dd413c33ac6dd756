"""Every public layer, in the order of the course.

`docs/pages/en/hidden_steps.md` describes how values at masked steps affect the results.
"""

from typing import TYPE_CHECKING

import kerasseq.core.serialization  # first: checks the backend
import kerasseq.models  # noqa: F401  # registers every model
from kerasseq.attention.alignment import (
    AlignmentAttention,
    BahdanauAttention,
    CosineAttention,
    LocationAttention,
    LuongAttention,
)
from kerasseq.attention.kernel_regression import KernelAttention
from kerasseq.attention.multi_head import MultiHeadAttention
from kerasseq.attention.sparse.adaptive_span import AdaptiveSpanAttention
from kerasseq.attention.sparse.blockwise import BlockwiseAttention
from kerasseq.attention.sparse.linformer import (
    LinformerAttention,
    LinformerProjection,
)
from kerasseq.attention.sparse.longformer import LongformerAttention
from kerasseq.attention.sparse.reformer import ReformerAttention
from kerasseq.convolution.causal import CausalConv1D
from kerasseq.convolution.wavenet import WaveNet
from kerasseq.core.namespace import missing_name as _missing_name
from kerasseq.linear.delta_net import DeltaNet
from kerasseq.linear.gated import GatedLinearAttention, Retention
from kerasseq.linear.linear_attention import LinearAttention
from kerasseq.linear.mlstm import MLSTM
from kerasseq.linear.rwkv4 import RWKV4ChannelMix, RWKV4TimeMix
from kerasseq.linear.rwkv7 import RWKV7TimeMix
from kerasseq.linear.rwkv7_channel_mix import RWKV7ChannelMix
from kerasseq.memory.memory_network import MemoryNetwork
from kerasseq.memory.ntm import NTMCell
from kerasseq.models.picture_tokenizer.vector_quantizer import VectorQuantizer
from kerasseq.models.vit.patches import PatchEmbedding
from kerasseq.positions.alibi import AlibiBias
from kerasseq.positions.amplitude import AmplitudePosition
from kerasseq.positions.base import AttentionPosition
from kerasseq.positions.binary import BinaryPosition
from kerasseq.positions.disentangled import DisentangledPosition, DisentangledTable
from kerasseq.positions.embedding import PositionEmbedding
from kerasseq.positions.relative import RelativePositionBias
from kerasseq.positions.rotary import RotaryEmbedding
from kerasseq.positions.segments import SegmentEmbedding
from kerasseq.positions.sine import SinePositionEncoding
from kerasseq.positions.tokens import PositionalEmbedding, TokenAndPositionEmbedding
from kerasseq.positions.transformer_xl import TransformerXLBiases, TransformerXLPosition
from kerasseq.published.layer_costs import costs
from kerasseq.rnn.elman import ElmanCell, ElmanRNN, SimpleRNN
from kerasseq.rnn.gated import GatedCell, GatedRNN
from kerasseq.rnn.gru import GRU, GRUCell
from kerasseq.rnn.layer import RNN
from kerasseq.rnn.lstm import LSTM, LSTMCell, PeepholeLSTM
from kerasseq.rnn.min_gru import MinGRU, MinGRUCell
from kerasseq.rnn.min_lstm import MinLSTM, MinLSTMCell
from kerasseq.rnn.slstm import SLSTM, SLSTMCell
from kerasseq.rnn.stacked import StackedRNN
from kerasseq.speech.conformer import ConformerBlock
from kerasseq.speech.conv_subsampling import ConvSubsampling
from kerasseq.speech.log_mel import LogMelSpectrogram
from kerasseq.speech.spec_augment import SpecAugment
from kerasseq.state_space.mamba import Mamba
from kerasseq.state_space.s4d import S4D
from kerasseq.tasks.crf import CRF
from kerasseq.transformer.decoder import TransformerDecoder
from kerasseq.transformer.encoder import TransformerEncoder
from kerasseq.transformer.experts import MixtureOfExperts
from kerasseq.transformer.feed_forward import FeedForward
from kerasseq.transformer.norms import LayerNormalization, RMSNormalization

__all__ = [
    "ElmanCell",
    "ElmanRNN",
    "SimpleRNN",
    "GatedCell",
    "GatedRNN",
    "LSTM",
    "LSTMCell",
    "PeepholeLSTM",
    "GRU",
    "GRUCell",
    "MinGRU",
    "MinGRUCell",
    "MinLSTM",
    "MinLSTMCell",
    "SLSTM",
    "SLSTMCell",
    "RNN",
    "StackedRNN",
    "CausalConv1D",
    "WaveNet",
    "AlignmentAttention",
    "BahdanauAttention",
    "LuongAttention",
    "LocationAttention",
    "CosineAttention",
    "KernelAttention",
    "MultiHeadAttention",
    "BlockwiseAttention",
    "LongformerAttention",
    "ReformerAttention",
    "LinformerAttention",
    "LinformerProjection",
    "AdaptiveSpanAttention",
    "AmplitudePosition",
    "BinaryPosition",
    "SinePositionEncoding",
    "PositionEmbedding",
    "TokenAndPositionEmbedding",
    "PositionalEmbedding",
    "SegmentEmbedding",
    "AttentionPosition",
    "RotaryEmbedding",
    "AlibiBias",
    "RelativePositionBias",
    "TransformerXLBiases",
    "TransformerXLPosition",
    "DisentangledTable",
    "DisentangledPosition",
    "LayerNormalization",
    "RMSNormalization",
    "FeedForward",
    "MixtureOfExperts",
    "TransformerEncoder",
    "TransformerDecoder",
    "LinearAttention",
    "GatedLinearAttention",
    "Retention",
    "DeltaNet",
    "MLSTM",
    "RWKV4TimeMix",
    "RWKV4ChannelMix",
    "RWKV7TimeMix",
    "RWKV7ChannelMix",
    "S4D",
    "Mamba",
    "MemoryNetwork",
    "NTMCell",
    "PatchEmbedding",
    "VectorQuantizer",
    "LogMelSpectrogram",
    "SpecAugment",
    "CRF",
    "ConvSubsampling",
    "ConformerBlock",
    "costs",
]

if not TYPE_CHECKING:  # a checker knows the names by itself
    __getattr__ = _missing_name(__name__)
