"""A two-tower model in PyTorch Lightning: negatives are drawn in ``training_step`` from the vectors of that moment."""

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import vitalrank as vr


class TwoTower(lightning.LightningModule):
    """score(user, item) = user tower . item vector."""

    def __init__(self, train: vr.Interactions, dim: int = 32):
        super().__init__()
        self.user_tower = nn.Sequential(nn.Embedding(train.n_users, dim), nn.Linear(dim, dim))
        self.items = nn.Embedding(train.n_items, dim)
        nn.init.normal_(self.items.weight, std=0.1)
        self.sampler = vr.VINS(beta=0.75, kappa=64).bind(train, seed=0)  # not a module: it has no parameters

    def training_step(self, batch: list[torch.Tensor], number: int) -> torch.Tensor:
        users, positives = batch
        queries, table = self.user_tower(users), self.items.weight
        draw = self.sampler(queries, table, users, positives, step=self.global_step)  # so a resumed run repeats it
        positive = (queries * table[positives]).sum(1)  # (B,)
        negative = (queries[:, None] * table[draw.ids]).sum(2)  # (B, k)
        loss = vr.losses.bpr(positive, negative, draw.weights)
        self.log("loss", loss, on_step=False, on_epoch=True)
        self.log("tries", draw.tries.float().mean(), on_step=False, on_epoch=True)
        return loss

    def on_train_epoch_end(self) -> None:
        sums = self.trainer.callback_metrics
        print(f"epoch {self.current_epoch + 1}  loss {sums['loss']:.4f}  tries {sums['tries']:.1f}")

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.01)


def main(epochs: int = 4, batch: int = 512) -> None:
    lightning.seed_everything(0, verbose=False)
    train = vr.datasets.synthetic(users=500, items=400, interactions=12_000, seed=0)
    pairs = TensorDataset(torch.from_numpy(train.users).long(), torch.from_numpy(train.items).long())
    trainer = lightning.Trainer(
        max_epochs=epochs, accelerator="auto", logger=False, enable_checkpointing=False, enable_progress_bar=False
    )
    trainer.fit(TwoTower(train), DataLoader(pairs, batch_size=batch, shuffle=True))


if __name__ == "__main__":
    main()
