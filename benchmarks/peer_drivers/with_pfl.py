"""pfl-research: federated averaging on the simulated backend, PyTorch models."""

from __future__ import annotations

import torch
from common import mlp, shards_of
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam.base import NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from stopwatch import A_ROUND, BATCH, CLIENTS, EPOCHS, RATE, Job
from torch import Tensor, nn


class Classifier(nn.Module):
    """The model with what pfl wants of one."""

    def __init__(self, layers: nn.Module) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, inputs: Tensor) -> Tensor:
        """The logits."""
        return self.layers(inputs)

    def loss(self, inputs: Tensor, labels: Tensor, is_eval: bool = False) -> Tensor:
        """What is minimised."""
        return nn.functional.cross_entropy(self(inputs), labels)

    def metrics(self, inputs: Tensor, labels: Tensor, is_eval: bool = False) -> dict:
        """Nothing is measured."""
        return {}


class Watch(TrainingProcessCallback):
    """Takes the time."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: PyTorchModel, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        """A round has ended."""
        self._job.round_ended()
        return False, Metrics()


def main() -> None:
    """Run it."""
    job = Job()
    shards = shards_of(job.data)
    layers = Classifier(mlp(job.features))
    model = PyTorchModel(layers, torch.optim.SGD, torch.optim.SGD(layers.parameters(), lr=1.0))
    users = FederatedDataset(
        lambda user: PyTorchTensorDataset(tensors=shards[user]),
        get_user_sampler("random", list(range(CLIENTS))),
    )
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=job.rounds,
            evaluation_frequency=job.rounds + 1,
            train_cohort_size=A_ROUND,
            val_cohort_size=0,
        ),
        SimulatedBackend(training_data=users, val_data=users),
        model,
        NNTrainHyperParams(
            local_num_epochs=EPOCHS, local_learning_rate=RATE, local_batch_size=BATCH
        ),
        callbacks=[Watch(job)],
    )
    job.report()


if __name__ == "__main__":
    main()
