"""Functional Keras models: encoders, decoders, classifiers, captioners and their heads."""

from keras_attn.models.bag_classifier import BagClassifierConfig
from keras_attn.models.bert import BertConfig
from keras_attn.models.bert_classifier import BertClassifierConfig
from keras_attn.models.bilstm import BiLstmConfig
from keras_attn.models.captioner import CaptionDecoder, image_captioner
from keras_attn.models.encoder_heads import HEADS, with_heads
from keras_attn.models.entailment import EntailmentConfig
from keras_attn.models.gpt import GptConfig
from keras_attn.models.hidden_states import hidden_states
from keras_attn.models.image_encoder import ImageEncoder
from keras_attn.models.image_encoder_config import ImageEncoderConfig
from keras_attn.models.image_encoders import applications_encoder, encoder_from_model
from keras_attn.models.language_decoder import language_decoder
from keras_attn.models.memory_network import MemoryNetworkConfig
from keras_attn.models.modern_bert import ModernBertClassifierConfig, ModernBertConfig
from keras_attn.models.packed_transformer import packed_transformer
from keras_attn.models.recurrent import RecurrentEncoderDecoderConfig
from keras_attn.models.recurrent_classifier import RecurrentClassifierConfig
from keras_attn.models.recurrent_language_model import RecurrentLanguageModelConfig
from keras_attn.models.roberta import RobertaClassifierConfig, RobertaConfig
from keras_attn.models.roles import (
    CAPTIONERS,
    CONVERSATION_MODELS,
    ENCODER_DECODERS,
    ENCODERS,
    LANGUAGE_MODELS,
    PAIR_CLASSIFIERS,
    TEXT_CLASSIFIERS,
    VISUAL_QUESTION_MODELS,
    WORD_MODELS,
)
from keras_attn.models.sentence_encoder import paired_encoder, sentence_encoder
from keras_attn.models.sequence_decoder import SequenceDecoder
from keras_attn.models.small_image_encoders import patch_encoder, small_cnn_encoder
from keras_attn.models.soft_attention_captioner import SoftAttentionCaptionerConfig
from keras_attn.models.t5 import T5Config
from keras_attn.models.target_probability import (
    target_log_probabilities,
    target_log_probability,
)
from keras_attn.models.text_classifier import classifier_kind, embedding_and_rest
from keras_attn.models.text_encoder import TextEncoderConfig
from keras_attn.models.token_decoder import TokenDecoder
from keras_attn.models.transformer import TransformerEncoderDecoderConfig
from keras_attn.models.transformer_captioner import TransformerCaptionerConfig
from keras_attn.models.transformer_classifier import TransformerClassifierConfig
from keras_attn.models.visual_questions import (
    ConcatenatedQuestionsConfig,
    VisualQuestionsConfig,
    picture_questions,
)
from keras_attn.models.word2vec import CbowConfig, SkipGramConfig

__all__ = [
    "CAPTIONERS",
    "CONVERSATION_MODELS",
    "ENCODERS",
    "ENCODER_DECODERS",
    "HEADS",
    "LANGUAGE_MODELS",
    "PAIR_CLASSIFIERS",
    "TEXT_CLASSIFIERS",
    "VISUAL_QUESTION_MODELS",
    "WORD_MODELS",
    "BagClassifierConfig",
    "BertClassifierConfig",
    "BertConfig",
    "BiLstmConfig",
    "CaptionDecoder",
    "CbowConfig",
    "ConcatenatedQuestionsConfig",
    "EntailmentConfig",
    "GptConfig",
    "ImageEncoder",
    "ImageEncoderConfig",
    "MemoryNetworkConfig",
    "ModernBertClassifierConfig",
    "ModernBertConfig",
    "RecurrentClassifierConfig",
    "RecurrentEncoderDecoderConfig",
    "RecurrentLanguageModelConfig",
    "RobertaClassifierConfig",
    "RobertaConfig",
    "SequenceDecoder",
    "SkipGramConfig",
    "SoftAttentionCaptionerConfig",
    "T5Config",
    "TextEncoderConfig",
    "TokenDecoder",
    "TransformerCaptionerConfig",
    "TransformerClassifierConfig",
    "TransformerEncoderDecoderConfig",
    "VisualQuestionsConfig",
    "applications_encoder",
    "classifier_kind",
    "embedding_and_rest",
    "encoder_from_model",
    "hidden_states",
    "image_captioner",
    "language_decoder",
    "packed_transformer",
    "paired_encoder",
    "patch_encoder",
    "picture_questions",
    "sentence_encoder",
    "small_cnn_encoder",
    "target_log_probabilities",
    "target_log_probability",
    "with_heads",
]
