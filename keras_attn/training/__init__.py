"""Losses, metrics, learning rate schedules and resumable training runs, for any backend."""

from keras_attn.training.averaging import averaged_weights
from keras_attn.training.caption_metrics import CaptionScores, ImageScores, caption_scores
from keras_attn.training.caption_tokens import tokenize_captions
from keras_attn.training.checkpointing import TrainingCheckpoint, fit_resumable
from keras_attn.training.chunked_loss import linear_cross_entropy
from keras_attn.training.chunked_loss_model import ChunkedLossModel
from keras_attn.training.classification import (
    ClassificationReport,
    ClassScores,
    Estimate,
    evaluate_probabilities,
    fit_temperature,
)
from keras_attn.training.devices import compute_on, num_data_shards
from keras_attn.training.distribution import ProcessBatches, get_layout_map, model_parallel
from keras_attn.training.logs import TrainingLog
from keras_attn.training.lora import (
    LoraReport,
    enable_lora,
    load_lora,
    merge_lora,
    save_lora,
)
from keras_attn.training.losses import MaskedCrossEntropy
from keras_attn.training.metrics import MaskedAccuracy, Perplexity
from keras_attn.training.schedules import InverseSquareRootSchedule, WarmupCosineSchedule
from keras_attn.training.seeding import seed_everything
from keras_attn.training.state import (
    load_training_state,
    read_training_notes,
    save_training_state,
)

__all__ = [
    "CaptionScores",
    "ChunkedLossModel",
    "ClassScores",
    "ClassificationReport",
    "Estimate",
    "ImageScores",
    "InverseSquareRootSchedule",
    "LoraReport",
    "MaskedAccuracy",
    "MaskedCrossEntropy",
    "Perplexity",
    "ProcessBatches",
    "TrainingCheckpoint",
    "TrainingLog",
    "WarmupCosineSchedule",
    "averaged_weights",
    "caption_scores",
    "compute_on",
    "enable_lora",
    "evaluate_probabilities",
    "fit_resumable",
    "fit_temperature",
    "get_layout_map",
    "linear_cross_entropy",
    "load_lora",
    "load_training_state",
    "merge_lora",
    "model_parallel",
    "num_data_shards",
    "read_training_notes",
    "save_lora",
    "save_training_state",
    "seed_everything",
    "tokenize_captions",
]
