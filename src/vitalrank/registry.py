"""The parts of the library by name: samplers, models, losses, optimizers, metrics, each imported when it is asked for.

One table for each kind. The command line, the tuning spaces, the package's public names and the tests read them, so a
new part is its source file and its line here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vitalrank._util.lazy import load_target
from vitalrank.errors import SettingError

SearchValues = str | Sequence[float | str]  # a range as text, or a list


@dataclass(frozen=True)
class Entry:
    """Where a part is defined, and what else is known of it before it is imported.

    Parameters
    ----------
    target
        ``"module:Class"``, the module relative to ``vitalrank``.
    needs_modules
        Of a model: whether it is made of torch modules of the caller's, which have no flag on the command line.
    search
        Of a sampler, or of a model without one: what a search over settings tries around the defaults, as ranges
        (``"2..64:log"``) or lists. None: no settings of its own; a model with a sampler has those of training.
    """

    target: str
    needs_modules: bool = False
    search: Mapping[str, SearchValues] | None = None

    @property
    def class_name(self) -> str:
        """The name of the class.

        Examples
        --------
        >>> SAMPLERS["lfm-w"].class_name
        'LFMW'
        """
        return self.target.partition(":")[2]

    def load(self) -> Any:
        """The class, or function, itself."""
        return load_target(self.target)


class Registry(Mapping[str, Entry]):
    """Parts of one kind by name.

    Examples
    --------
    >>> list(OPTIMIZERS)
    ['adam', 'adagrad', 'sgd']
    >>> LOSSES.find("huber")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    vitalrank.errors.SettingError: unknown loss 'huber'; choose one of bpr, hinge, cross_entropy, gbce, ...
    """

    def __init__(self, kind: str, entries: Mapping[str, Entry]) -> None:
        self.kind = kind
        self._entries = dict(entries)

    def __getitem__(self, name: str) -> Entry:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, name: str) -> Entry:
        """The entry of that name, or an error that lists the names."""
        if name not in list(self):  # of a list, since what is no string may have no hash
            raise SettingError(f"unknown {self.kind} {name!r}; choose one of {', '.join(self)}.")
        return self._entries[name]


_WEIGHTS = ("log2", "harmonic", "none")
_DECAYS = (0.6, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 1.0)
# In the paper's order.
SAMPLERS = Registry(
    "sampler",
    {
        "uni": Entry("samplers.static:Uniform"),
        "pop": Entry("samplers.static:Popularity", search={"beta": "0.0..1.0"}),
        "aobpr": Entry("samplers.ranked:AOBPR", search={"rho": "0.005..0.5:log"}),
        "cml": Entry("samplers.metric:CML", search={"candidates": "4..64:log", "margin": "0.25..2.0"}),
        "pris": Entry(
            "samplers.softmax_weighted:PRIS", search={"candidates": "2..64:log", "proposal": ["uniform", "popularity"]}
        ),
        "sa": Entry(
            "samplers.softmax_weighted:SA", search={"candidates": "16..256:log", "temperature": "0.1..10.0:log"}
        ),
        "irgan": Entry("samplers.adversarial:IRGAN", search={"temperature": "0.05..1.0:log"}),
        "dns": Entry("samplers.pooled:DNS", search={"candidates": "2..64:log"}),
        "lfm-d": Entry("samplers.pooled:LFMD", search={"candidates": "4..128:log", "rho": "0.01..0.5:log"}),
        "mixgcf": Entry("samplers.score_pooled:MixGCF", search={"candidates": "2..64:log"}),
        "ahns": Entry(
            "samplers.score_pooled:AHNS",
            search={"candidates": "4..64:log", "alpha": "0.0..2.0", "beta": "0.01..1.0:log", "p": "-3.0..-1.0"},
        ),
        "bns": Entry("samplers.bayesian:BNS", search={"candidates": "2..32:log", "alpha": "0.5..20.0:log"}),
        "mixed": Entry("samplers.mixed:Mixed", search={"share": "0.0..1.0"}),
        "lfm-w": Entry("samplers.rejecting:LFMW", search={"margin": "0.25..4.0:log", "weight": _WEIGHTS}),
        "vins": Entry(
            "samplers.rejecting:VINS",
            search={"beta": "0.0..1.0", "kappa": "8..256:log", "margin": "0.25..4.0:log", "weight": _WEIGHTS},
        ),
    },
)
# Their negatives come with the log or the batch; the contract of a draw from a proposal is not theirs.
GIVEN_SAMPLERS = Registry(
    "sampler", {"known": Entry("samplers.known:Known"), "in-batch": Entry("samplers.in_batch:InBatch")}
)
# ``model.json`` names the class, so a name once released stays.
MODELS = Registry(
    "model",
    {
        "mf": Entry("models.mf:MF"),
        "fpmc": Entry("models.fpmc:FPMC"),
        "marank": Entry("models.marank:MARank"),
        "sasrec": Entry("models.sasrec:SASRec"),
        "lightgcn": Entry("models.lightgcn:LightGCN"),
        "cml": Entry("models.cml:CML"),
        "irgan": Entry("models.irgan:IRGAN"),
        "als": Entry(
            "models.als:ALS",
            search={
                "dim": [16, 32, 64, 128],
                "reg": "0.1..100.0:log",
                "alpha": "1.0..100.0:log",
                "epochs": [10, 15, 30],
            },
        ),
        "ease": Entry(
            "models.ease:EASE", search={"reg": "10.0..10000.0:log", "dropout": [0.0, 0.2, 0.35, 0.5], "decay": _DECAYS}
        ),
        "itemknn": Entry(
            "models.itemknn:ItemKNN",
            search={
                "neighbours": [20, 50, 100, 200, 400],
                "shrinkage": [0.0, 10.0, 50.0, 200.0],
                "similarity": ["cosine", "tfidf", "bm25"],
                "b": "0.0..1.0",
                "neighbours_of": ["predicted", "history"],
                "decay": _DECAYS,
            },
        ),
        "mostpopular": Entry("models.mostpopular:MostPopular", search={}),
        "torchrecommender": Entry("models.custom:TorchRecommender", needs_modules=True),
    },
)
LOSSES = Registry(
    "loss",
    {
        "bpr": Entry("losses:bpr"),
        "hinge": Entry("losses:hinge"),
        "cross_entropy": Entry("losses:cross_entropy"),
        "gbce": Entry("losses:gbce"),
        "softmax": Entry("losses:softmax"),
        "bsl": Entry("losses:bsl"),
        "psl": Entry("losses:psl"),
    },
)
OPTIMIZERS = Registry(
    "optimizer",
    {
        "adam": Entry("kernels.optimizers:Adam"),
        "adagrad": Entry("kernels.optimizers:Adagrad"),
        "sgd": Entry("kernels.optimizers:Sgd"),
    },
)
METRICS = Registry(
    "metric",
    {
        "precision": Entry("metrics:precision"),
        "recall": Entry("metrics:recall"),
        "f1": Entry("metrics:f1"),
        "ndcg": Entry("metrics:ndcg"),
        "hit_rate": Entry("metrics:hit_rate"),
        "map": Entry("metrics:average_precision"),
        "mrr": Entry("metrics:mrr"),
        "coverage": Entry("metrics:coverage"),
        "novelty": Entry("metrics:novelty"),
        "diversity": Entry("metrics:diversity"),
        "serendipity": Entry("metrics:serendipity"),
        "calibration": Entry("metrics:calibration"),
        "gini": Entry("metrics:gini_of_exposure"),
    },
)

# Samplers and models under their class names at the root of the package. Where both have a class of one name (CML,
# IRGAN), the model has it there.
PUBLIC = {
    entry.class_name: entry.target for registry in (SAMPLERS, GIVEN_SAMPLERS, MODELS) for entry in registry.values()
}
