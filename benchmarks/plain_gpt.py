"""A GPT in plain PyTorch, to compare with `kerasseq.models.GPT`.

Pre-norm blocks, GELU, learned position embeddings, tied output embedding, attention by
`scaled_dot_product_attention`. Weights are initialized as in GPT-2: normal with
standard deviation 0.02, divided by the square root of the number of residual
connections for the projections into the residual stream.
"""

import math

import torch
from torch.nn import functional


class Block(torch.nn.Module):
    """Transformer block: causal self-attention and feed-forward network, pre-norm."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm_1 = torch.nn.LayerNorm(width)
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)
        self.norm_2 = torch.nn.LayerNorm(width)
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)

    def forward(self, x):
        B, T, D = x.shape
        qkv = self.qkv(self.norm_1(x)).view(B, T, 3, self.heads, D // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        p = self.dropout if self.training else 0.0
        y = functional.scaled_dot_product_attention(
            q, k, v, dropout_p=p, is_causal=True
        )
        y = self.out(y.transpose(1, 2).reshape(B, T, D))
        x = x + functional.dropout(y, self.dropout, self.training)
        y = self.down(functional.gelu(self.up(self.norm_2(x))))
        return x + functional.dropout(y, self.dropout, self.training)


class PlainGPT(torch.nn.Module):
    """Maps token ids `(B, T)` to logits `(B, T, V)`."""

    def __init__(self, vocabulary, length, layers, heads, width, dropout=0.0):
        super().__init__()
        self.length = length
        self.tokens = torch.nn.Embedding(vocabulary, width)
        self.positions = torch.nn.Embedding(length, width)
        self.blocks = torch.nn.ModuleList(
            Block(width, heads, dropout) for _ in range(layers)
        )
        self.norm = torch.nn.LayerNorm(width)
        for name, weight in self.named_parameters():
            if weight.ndim == 2:
                is_residual = name.endswith(("out.weight", "down.weight"))
                scale = 0.02 / math.sqrt(2 * layers) if is_residual else 0.02
                torch.nn.init.normal_(weight, 0.0, scale)
            elif "norm" not in name:
                torch.nn.init.zeros_(weight)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(
            torch.arange(ids.shape[1], device=ids.device)
        )
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.tokens.weight.T

    def loss(self, ids, targets):
        """Returns the mean cross-entropy."""
        logits = self(ids)
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten().long())

    @torch.no_grad()
    def generate(self, ids, length):
        """Generates `length` tokens by greedy search, without a cache."""
        for _ in range(length):
            logits = self(ids[:, -self.length :])[:, -1]
            ids = torch.cat([ids, logits.argmax(-1, keepdim=True)], dim=1)
        return ids


def optimizer(model, learning_rate):
    """Returns AdamW with weight decay for matrices only."""
    decays = [p for p in model.parameters() if p.ndim == 2]
    others = [p for p in model.parameters() if p.ndim != 2]
    groups = [
        {"params": decays, "weight_decay": 0.1},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        groups, lr=learning_rate, betas=(0.9, 0.99), fused=model.tokens.weight.is_cuda
    )
