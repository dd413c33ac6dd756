"""Every public layer, in the order of the course."""

import kerasseq.core.serialization  # first: it checks the backend
import kerasseq.models  # noqa: F401  # whoever loads a layer can load every model
from kerasseq.attention.alignment import AlignmentAttention
from kerasseq.attention.kernel_regression import KernelAttention
from kerasseq.attention.multi_head import MultiHeadAttention
from kerasseq.attention.named import (
    BahdanauAttention,
    CosineAttention,
    LocationAttention,
    LuongAttention,
)
from kerasseq.rnn.elman import ElmanCell, ElmanRNN
from kerasseq.rnn.gated import GatedCell, GatedRNN
from kerasseq.rnn.gru import GRU, GRUCell
from kerasseq.rnn.layer import RNN
from kerasseq.rnn.lstm import LSTM, LSTMCell, PeepholeLSTM
from kerasseq.rnn.stacked import StackedRNN
from kerasseq.transformer.decoder import TransformerDecoder
from kerasseq.transformer.encoder import TransformerEncoder
from kerasseq.transformer.feed_forward import FeedForward

__all__ = [
    "ElmanCell",
    "ElmanRNN",
    "GatedCell",
    "GatedRNN",
    "LSTM",
    "LSTMCell",
    "PeepholeLSTM",
    "GRU",
    "GRUCell",
    "RNN",
    "StackedRNN",
    "AlignmentAttention",
    "BahdanauAttention",
    "LuongAttention",
    "LocationAttention",
    "CosineAttention",
    "KernelAttention",
    "MultiHeadAttention",
    "FeedForward",
    "TransformerEncoder",
    "TransformerDecoder",
]
