"""Losses, metrics, learning rate schedules and resumable training runs, for any backend."""

from keras_attn.training.autotuning import without_autotuning
from keras_attn.training.averaging import averaged_weights
from keras_attn.training.checkpointing import TrainingCheckpoint, fit_resumable
from keras_attn.training.chunked_loss import linear_cross_entropy
from keras_attn.training.chunked_loss_model import ChunkedLossModel
from keras_attn.training.devices import compute_on, num_data_shards
from keras_attn.training.distribution import ProcessBatches, get_layout_map, model_parallel
from keras_attn.training.fused_adam import fuse_adam
from keras_attn.training.in_batch_loss import InBatchCrossEntropy
from keras_attn.training.learning_rates import scale_learning_rate
from keras_attn.training.logs import TrainingLog
from keras_attn.training.losses import MaskedCrossEntropy
from keras_attn.training.memory import kept_memory
from keras_attn.training.negative_sampling_loss import NegativeSamplingLoss
from keras_attn.training.repeated_rows import sum_repeated_rows
from keras_attn.training.row_steps import scale_row_steps
from keras_attn.training.schedules import InverseSquareRootSchedule, WarmupCosineSchedule
from keras_attn.training.seeding import seed_everything
from keras_attn.training.span_loss import SpanCrossEntropy
from keras_attn.training.state import (
    load_training_state,
    read_training_notes,
    save_training_state,
)
from keras_attn.training.weighted_binary_loss import WeightedBinaryCrossentropy

__all__ = [
    "ChunkedLossModel",
    "InBatchCrossEntropy",
    "InverseSquareRootSchedule",
    "MaskedCrossEntropy",
    "NegativeSamplingLoss",
    "ProcessBatches",
    "SpanCrossEntropy",
    "TrainingCheckpoint",
    "TrainingLog",
    "WarmupCosineSchedule",
    "WeightedBinaryCrossentropy",
    "averaged_weights",
    "compute_on",
    "fit_resumable",
    "fuse_adam",
    "get_layout_map",
    "kept_memory",
    "linear_cross_entropy",
    "load_training_state",
    "model_parallel",
    "num_data_shards",
    "read_training_notes",
    "save_training_state",
    "scale_learning_rate",
    "scale_row_steps",
    "seed_everything",
    "sum_repeated_rows",
    "without_autotuning",
]
