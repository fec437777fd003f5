"""A text encoder in the Hugging Face Trainer, on hard negatives that a callback mines before each epoch.

Random weights and made-up texts, so that nothing is downloaded; ``BertModel.from_pretrained(...)`` takes the place of
``BertModel(BertConfig(...))``.
"""

import tempfile
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from transformers import BertConfig, BertModel, Trainer, TrainerCallback, TrainingArguments

import vitalrank as vr


class Encoder(nn.Module):
    """Token ids in, vectors of length 1 out; called with a batch, the softmax loss over each query's documents."""

    def __init__(self, words: int = 600, dim: int = 32):
        super().__init__()
        sizes = {"hidden_size": dim, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
        self.bert = BertModel(BertConfig(vocab_size=words, hidden_dropout_prob=0.0, **sizes))

    def encode(self, tokens: torch.Tensor) -> torch.Tensor:
        return functional.normalize(self.bert(tokens).last_hidden_state.mean(1), dim=1)  # (B, dim)

    def forward(self, queries: torch.Tensor, documents: torch.Tensor) -> dict[str, torch.Tensor]:
        vectors = self.encode(documents.flatten(0, 1)).view(*documents.shape[:2], -1)  # (B, 1 + k, dim)
        scores = (vectors * self.encode(queries)[:, None]).sum(2) / 0.1
        return {"loss": functional.cross_entropy(scores, torch.zeros(len(scores), dtype=torch.int64))}


class MineEachEpoch(TrainerCallback):
    """Mines k negatives a query from the vectors that the model has by then."""

    def __init__(self, model: Encoder, queries: torch.Tensor, documents: torch.Tensor, k: int = 4):
        self.model, self.queries, self.documents, self.k = model, queries, documents, k
        self.negatives = np.zeros((len(queries), k), np.int64)

    @torch.no_grad()
    def vectors(self, tokens: torch.Tensor) -> np.ndarray:
        return np.concatenate([self.model.encode(part).numpy() for part in tokens.split(256)])

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        queries, documents = self.vectors(self.queries), self.vectors(self.documents)
        own = np.arange(len(queries))  # a query's document has its row number
        self.negatives = vr.mine(
            queries, documents, own, self.k, sampler=vr.DNS(candidates=16), seed=int(state.epoch)
        ).negatives
        best = np.argsort(-(queries @ documents.T), axis=1)[:, :5]
        print(f"epoch {int(state.epoch)}  recall@5 {(best == own[:, None]).any(1).mean():.4f}")

    def collate(self, rows: list[int]) -> dict[str, torch.Tensor]:
        texts = np.concatenate([np.array(rows)[:, None], self.negatives[rows]], 1)  # the positive comes first
        return {"queries": self.queries[rows], "documents": self.documents[texts]}


def made_up_texts(documents: int = 400, words: int = 600) -> tuple[torch.Tensor, torch.Tensor]:
    """Documents of 12 words each about one of 40 topics, and for each a query of 4 of its words."""
    rng = np.random.default_rng(0)
    topics = rng.integers(0, words, (40, 30))
    texts = np.stack([rng.choice(topics[document % 40], 12) for document in range(documents)])
    return torch.from_numpy(np.stack([rng.choice(text, 4, replace=False) for text in texts])), torch.from_numpy(texts)


def main(epochs: int = 4) -> None:
    torch.manual_seed(0)
    queries, documents = made_up_texts()
    model = Encoder()
    miner = MineEachEpoch(model, queries, documents)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, num_train_epochs=epochs, per_device_train_batch_size=64, learning_rate=5e-3, use_cpu=True,
            save_strategy="no", report_to="none", disable_tqdm=True, remove_unused_columns=False, seed=0,
        )  # fmt: skip
        rows = list(range(len(queries)))
        trainer = Trainer(model, arguments, train_dataset=rows, data_collator=miner.collate, callbacks=[miner])
        print(f"loss {trainer.train().training_loss:.4f}")
    miner.on_epoch_begin(None, trainer.state, None)  # what it has learnt


if __name__ == "__main__":
    main()
