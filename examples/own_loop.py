"""A two-tower model in plain PyTorch, trained in its own loop on the negatives that vitalrank picks."""

import numpy as np
import torch
from torch import nn

import vitalrank as vr


class TwoTower(nn.Module):
    """score(user, item) = user tower . item tower."""

    def __init__(self, n_users: int, n_items: int, dim: int = 32):
        super().__init__()
        self.user_tower = nn.Sequential(nn.Embedding(n_users, dim), nn.Linear(dim, dim))
        self.item_tower = nn.Sequential(nn.Embedding(n_items, dim), nn.Linear(dim, dim))
        for tower in (self.user_tower, self.item_tower):
            nn.init.normal_(tower[0].weight, std=0.1)

    def forward(self, users: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        embedding, layer = self.item_tower
        return self.user_tower(users), layer(embedding.weight)  # (B, dim), (n_items, dim)


@torch.no_grad()
def ndcg(model: TwoTower, train: vr.Interactions, test: vr.Interactions, n: int = 10) -> float:
    users = np.flatnonzero(np.diff(test.indptr))
    queries, table = model(torch.from_numpy(users))
    scores = (queries @ table.T).numpy()  # (users, n_items)
    scores[train.csr[users].nonzero()] = -np.inf  # training items are not recommended again
    top = np.argsort(-scores, axis=1)[:, :n]
    hits = test.csr[users].toarray()[np.arange(len(users))[:, None], top] > 0
    return float(vr.metrics.ndcg(hits, np.diff(test.indptr)[users]).mean())


def main(epochs: int = 8, batch: int = 512) -> None:
    torch.manual_seed(0)
    train, test = vr.datasets.synthetic(users=1000, items=800, interactions=30_000, seed=0).split_last(0.2)
    users, items = torch.from_numpy(train.users).long(), torch.from_numpy(train.items).long()
    model = TwoTower(train.n_users, train.n_items)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    sampler = vr.VINS(beta=0.75, kappa=64, margin=1.0).bind(train, seed=0)
    step = 0
    for epoch in range(epochs):
        losses = []
        for rows in torch.randperm(len(users)).split(batch):
            queries, table = model(users[rows])
            draw = sampler(queries, table, users[rows], items[rows], step=(step := step + 1))
            positive = (queries * table[items[rows]]).sum(dim=1)  # (B,)
            negative = (queries[:, None] * table[draw.ids]).sum(dim=2)  # (B, 1)
            loss = vr.losses.bpr(positive, negative, draw.weights)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        print(f"epoch {epoch + 1}  loss {np.mean(losses):.4f}  ndcg@10 {ndcg(model, train, test):.4f}")


if __name__ == "__main__":
    main()
