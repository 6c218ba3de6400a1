"""Tasks: models from strings to strings, with text processing and training."""

from keras_attn.batches import SentenceIds
from keras_attn.explain import (
    Alignment,
    DeletionCurve,
    EncoderStudy,
    Explanation,
    NBestTranslations,
    deletion_curve,
)
from keras_attn.explain.word_maps import Caption, VisualAnswer, VisualExplanation
from keras_attn.fields import Answer, AnswerSpan, EntityPlace, FoundAnswer, Guess, TaggedWords
from keras_attn.metrics import (
    ConversationScores,
    PretrainingReport,
    RegressionReport,
    RougeReport,
    TranslationScores,
)
from keras_attn.models.tensors import LoadReport
from keras_attn.records.labelled_pairs import LabelledPair, LabelledPairs, read_labelled_pairs
from keras_attn.tasks.answer_selection import (
    AnswerSelectionData,
    AnswerSelectionTest,
    AnswerSelectionUse,
    AnswerSelector,
)
from keras_attn.tasks.base.backbones import Backbone, read_backbone
from keras_attn.tasks.base.constructed import Beginning
from keras_attn.tasks.base.fine_tuning import EncoderTraining, FineTuning
from keras_attn.tasks.base.learned import Learned
from keras_attn.tasks.base.steps import Note, Step, step, steps_of
from keras_attn.tasks.base.task import Examples, Task
from keras_attn.tasks.base.task_run import Scored, TrainingRun
from keras_attn.tasks.base.training_settings import TrainingSettings
from keras_attn.tasks.captioning import (
    Captioner,
    CaptioningData,
    CaptioningTest,
    CaptioningTraining,
    CaptioningUse,
)
from keras_attn.tasks.conversation import (
    ConversationData,
    ConversationTest,
    ConversationTraining,
    ConversationUse,
    Talker,
)
from keras_attn.tasks.embeddings import (
    EmbeddingsData,
    EmbeddingsReport,
    EmbeddingsTest,
    EmbeddingsTraining,
    EmbeddingsUse,
    WordEmbedder,
    WordIds,
    WordTests,
)
from keras_attn.tasks.entailment import (
    EntailmentClassifier,
    EntailmentData,
    EntailmentTest,
    EntailmentTraining,
    EntailmentUse,
)
from keras_attn.tasks.families.attention_views import (
    caption_view,
    classification_view,
    translation_view,
)
from keras_attn.tasks.families.class_predictions import Prediction
from keras_attn.tasks.families.encoder_task import EncoderData, EncoderTask
from keras_attn.tasks.families.sequence_to_sequence import TargetScore
from keras_attn.tasks.pretraining import (
    Pretrainer,
    PretrainingData,
    PretrainingTest,
    PretrainingTraining,
    PretrainingUse,
)
from keras_attn.tasks.question_answering import (
    QuestionAnswerer,
    QuestionAnsweringData,
    QuestionAnsweringTest,
    QuestionAnsweringTraining,
    QuestionAnsweringUse,
)
from keras_attn.tasks.regression import (
    PredictedNumber,
    RegressionData,
    RegressionTest,
    RegressionTraining,
    RegressionUse,
    TextRegressor,
)
from keras_attn.tasks.similarity import (
    SimilarityData,
    SimilarityScorer,
    SimilarityTest,
    SimilarityUse,
)
from keras_attn.tasks.summarization import (
    SummarizationData,
    SummarizationTest,
    SummarizationTraining,
    SummarizationUse,
    Summarizer,
)
from keras_attn.tasks.tagging import (
    Tagger,
    TaggingData,
    TaggingTest,
    TaggingTraining,
    TaggingUse,
)
from keras_attn.tasks.text_classification import (
    TextClassificationData,
    TextClassificationTest,
    TextClassificationTraining,
    TextClassificationUse,
    TextClassifier,
)
from keras_attn.tasks.text_generation import (
    Ending,
    NBestTexts,
    TextGenerationData,
    TextGenerationTest,
    TextGenerationTraining,
    TextGenerationUse,
    TextGenerator,
    TextScore,
)
from keras_attn.tasks.translation import (
    PreparedTranslation,
    TranslationData,
    TranslationTest,
    TranslationTraining,
    TranslationUse,
    Translator,
)
from keras_attn.tasks.visual_questions import (
    VisualQuestionAnswerer,
    VisualQuestionsData,
    VisualQuestionsTest,
    VisualQuestionsTraining,
    VisualQuestionsUse,
)

__all__ = [
    "Alignment",
    "Answer",
    "AnswerSelectionData",
    "AnswerSelectionTest",
    "AnswerSelectionUse",
    "AnswerSelector",
    "AnswerSpan",
    "Backbone",
    "Beginning",
    "Caption",
    "Captioner",
    "CaptioningData",
    "CaptioningTest",
    "CaptioningTraining",
    "CaptioningUse",
    "ConversationData",
    "ConversationScores",
    "ConversationTest",
    "ConversationTraining",
    "ConversationUse",
    "DeletionCurve",
    "EmbeddingsData",
    "EmbeddingsReport",
    "EmbeddingsTest",
    "EmbeddingsTraining",
    "EmbeddingsUse",
    "EncoderData",
    "EncoderStudy",
    "EncoderTask",
    "EncoderTraining",
    "Ending",
    "EntailmentClassifier",
    "EntailmentData",
    "EntailmentTest",
    "EntailmentTraining",
    "EntailmentUse",
    "EntityPlace",
    "Examples",
    "Explanation",
    "FineTuning",
    "FoundAnswer",
    "Guess",
    "LabelledPair",
    "LabelledPairs",
    "Learned",
    "LoadReport",
    "NBestTexts",
    "NBestTranslations",
    "Note",
    "PredictedNumber",
    "Prediction",
    "PreparedTranslation",
    "Pretrainer",
    "PretrainingData",
    "PretrainingReport",
    "PretrainingTest",
    "PretrainingTraining",
    "PretrainingUse",
    "QuestionAnswerer",
    "QuestionAnsweringData",
    "QuestionAnsweringTest",
    "QuestionAnsweringTraining",
    "QuestionAnsweringUse",
    "RegressionData",
    "RegressionReport",
    "RegressionTest",
    "RegressionTraining",
    "RegressionUse",
    "RougeReport",
    "Scored",
    "SentenceIds",
    "SimilarityData",
    "SimilarityScorer",
    "SimilarityTest",
    "SimilarityUse",
    "Step",
    "SummarizationData",
    "SummarizationTest",
    "SummarizationTraining",
    "SummarizationUse",
    "Summarizer",
    "TaggedWords",
    "Tagger",
    "TaggingData",
    "TaggingTest",
    "TaggingTraining",
    "TaggingUse",
    "Talker",
    "TargetScore",
    "Task",
    "TextClassificationData",
    "TextClassificationTest",
    "TextClassificationTraining",
    "TextClassificationUse",
    "TextClassifier",
    "TextGenerationData",
    "TextGenerationTest",
    "TextGenerationTraining",
    "TextGenerationUse",
    "TextGenerator",
    "TextRegressor",
    "TextScore",
    "TrainingRun",
    "TrainingSettings",
    "TranslationData",
    "TranslationScores",
    "TranslationTest",
    "TranslationTraining",
    "TranslationUse",
    "Translator",
    "VisualAnswer",
    "VisualExplanation",
    "VisualQuestionAnswerer",
    "VisualQuestionsData",
    "VisualQuestionsTest",
    "VisualQuestionsTraining",
    "VisualQuestionsUse",
    "WordEmbedder",
    "WordIds",
    "WordTests",
    "caption_view",
    "classification_view",
    "deletion_curve",
    "read_backbone",
    "read_labelled_pairs",
    "step",
    "steps_of",
    "translation_view",
]
