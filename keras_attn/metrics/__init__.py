"""Metrics of all tasks, with confidence intervals, and simple baselines."""

from keras_attn.metrics.answers import (
    AnswerReport,
    answer_f1,
    common_words_answer,
    normalized_answer,
    score_answers,
)
from keras_attn.metrics.caption_tokens import tokenize_captions
from keras_attn.metrics.captions import CaptionScores, ImageScores, caption_scores
from keras_attn.metrics.classification import (
    ClassificationReport,
    ClassScores,
    evaluate_probabilities,
    fit_temperature,
)
from keras_attn.metrics.conversation import (
    ConversationScores,
    answer_scores,
    answer_words,
    commonest_share,
    distinct,
    embedding_average,
    nearest_answers,
    random_answers,
)
from keras_attn.metrics.correlation import (
    CorrelationReport,
    average_ranks,
    evaluate_scores,
    pearson,
    spearman,
)
from keras_attn.metrics.entities import (
    Entity,
    TaggingReport,
    entities_of,
    repair_labels,
    score_tags,
)
from keras_attn.metrics.masked_words import (
    PretrainingReport,
    bigram_accuracy,
    common_words_accuracy,
    score_masked_words,
    unigram_accuracy,
)
from keras_attn.metrics.ranking import RankingReport, ranks_of, score_ranking, score_ranks
from keras_attn.metrics.regression import RegressionReport, conformal_margin, evaluate_numbers
from keras_attn.metrics.reports import Estimate, Report
from keras_attn.metrics.summaries import RougeReport, rouge, score_summaries
from keras_attn.metrics.text_score import TextScore
from keras_attn.metrics.tokens import MaskedAccuracy, Perplexity
from keras_attn.metrics.translation import TranslationScores
from keras_attn.metrics.visual_questions import (
    agreement,
    attention_share,
    majority_answers,
    visual_question_scores,
)
from keras_attn.metrics.word_space import (
    AnalogyReport,
    EmbeddingsReport,
    Neighbour,
    WordPairReport,
    WordSpace,
)

__all__ = [
    "AnalogyReport",
    "AnswerReport",
    "CaptionScores",
    "ClassScores",
    "ClassificationReport",
    "ConversationScores",
    "CorrelationReport",
    "EmbeddingsReport",
    "Entity",
    "Estimate",
    "ImageScores",
    "MaskedAccuracy",
    "Neighbour",
    "Perplexity",
    "PretrainingReport",
    "RankingReport",
    "RegressionReport",
    "Report",
    "RougeReport",
    "TaggingReport",
    "TextScore",
    "TranslationScores",
    "WordPairReport",
    "WordSpace",
    "agreement",
    "answer_f1",
    "answer_scores",
    "answer_words",
    "attention_share",
    "average_ranks",
    "bigram_accuracy",
    "caption_scores",
    "common_words_accuracy",
    "common_words_answer",
    "commonest_share",
    "conformal_margin",
    "distinct",
    "embedding_average",
    "entities_of",
    "evaluate_numbers",
    "evaluate_probabilities",
    "evaluate_scores",
    "fit_temperature",
    "majority_answers",
    "nearest_answers",
    "normalized_answer",
    "pearson",
    "random_answers",
    "ranks_of",
    "repair_labels",
    "rouge",
    "score_answers",
    "score_masked_words",
    "score_ranking",
    "score_ranks",
    "score_summaries",
    "score_tags",
    "spearman",
    "tokenize_captions",
    "unigram_accuracy",
    "visual_question_scores",
]
