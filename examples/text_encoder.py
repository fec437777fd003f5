"""A text encoder, trained on hard negatives that are mined anew for each epoch from its own vectors.

Random weights and made-up texts, so that nothing is downloaded; put your own encoder in its place.
"""

import numpy as np
import torch
from torch import nn
from torch.nn import functional

import vitalrank as vr


class TextEncoder(nn.Module):
    """Token ids in, one vector of length 1 per text out: embeddings, a transformer layer, the mean over the tokens."""

    def __init__(self, words: int = 600, dim: int = 32):
        super().__init__()
        self.words = nn.Embedding(words, dim)
        self.layer = nn.TransformerEncoderLayer(dim, nhead=2, dim_feedforward=64, dropout=0.0, batch_first=True)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return functional.normalize(self.layer(self.words(tokens)).mean(1), dim=1)  # (B, dim)


def made_up_texts(documents: int = 400, words: int = 600) -> tuple[torch.Tensor, torch.Tensor]:
    """Documents of 12 words each about one of 40 topics, and for each a query of 4 of its words."""
    rng = np.random.default_rng(0)
    topics = rng.integers(0, words, (40, 30))
    texts = np.stack([rng.choice(topics[document % 40], 12) for document in range(documents)])
    queries = np.stack([rng.choice(text, 4, replace=False) for text in texts])
    return torch.from_numpy(queries), torch.from_numpy(texts)


@torch.no_grad()
def encoded(model: TextEncoder, tokens: torch.Tensor) -> np.ndarray:
    return np.concatenate([model(part).numpy() for part in tokens.split(256)])


def recall(model: TextEncoder, queries: torch.Tensor, documents: torch.Tensor, n: int = 5) -> float:
    scores = encoded(model, queries) @ encoded(model, documents).T
    best = np.argsort(-scores, axis=1)[:, :n]
    return float((best == np.arange(len(queries))[:, None]).any(1).mean())


def main(epochs: int = 4, batch: int = 64, k: int = 4, temperature: float = 0.1) -> None:
    torch.manual_seed(0)
    queries, documents = made_up_texts()
    model = TextEncoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    positives = np.arange(len(queries))  # a query's document has its row number
    for epoch in range(epochs):
        mined = vr.mine(
            encoded(model, queries), encoded(model, documents), positives, k, sampler=vr.DNS(candidates=16), seed=epoch
        )
        negatives, losses = torch.from_numpy(mined.negatives), []
        for rows in torch.randperm(len(queries)).split(batch):
            texts = torch.cat([rows[:, None], negatives[rows]], 1)  # (B, 1 + k): the positive comes first
            vectors = model(documents[texts].flatten(0, 1)).view(*texts.shape, -1)
            scores = (vectors * model(queries[rows])[:, None]).sum(2) / temperature
            loss = functional.cross_entropy(scores, torch.zeros(len(rows), dtype=torch.int64))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        print(f"epoch {epoch + 1}  loss {np.mean(losses):.4f}  recall@5 {recall(model, queries, documents):.4f}")


if __name__ == "__main__":
    main()
