"""ELMo for Hugging Face transformers.

Importing the package registers its classes with AutoConfig, AutoModel, AutoTokenizer, and the auto class of each head.
"""

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForPreTraining,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
)

from hf_elmo.configuration_elmo import ElmoConfig
from hf_elmo.embedder import ElmoEmbedder
from hf_elmo.modeling_elmo import (
    ElmoForPreTraining,
    ElmoForPreTrainingOutput,
    ElmoModel,
    ElmoModelOutput,
    ElmoPreTrainedModel,
)
from hf_elmo.question_answering import ElmoForQuestionAnswering
from hf_elmo.sequence_classification import ElmoForSequenceClassification
from hf_elmo.tasks.baseline import (
    BaselineConfig,
    BaselineForQuestionAnswering,
    BaselineForSequenceClassification,
    BaselineForTokenClassification,
)
from hf_elmo.token_classification import ElmoForTokenClassification, ElmoTokenClassifierOutput
from hf_elmo.tokenization_elmo import ElmoTokenizer
from hf_elmo.version import __version__

__all__ = [
    "ElmoConfig",
    "ElmoEmbedder",
    "ElmoForPreTraining",
    "ElmoForPreTrainingOutput",
    "ElmoForQuestionAnswering",
    "ElmoForSequenceClassification",
    "ElmoForTokenClassification",
    "ElmoModel",
    "ElmoModelOutput",
    "ElmoPreTrainedModel",
    "ElmoTokenClassifierOutput",
    "ElmoTokenizer",
    "__version__",
]

AutoConfig.register("elmo", ElmoConfig, exist_ok=True)
AutoModel.register(ElmoConfig, ElmoModel, exist_ok=True)
AutoModelForPreTraining.register(ElmoConfig, ElmoForPreTraining, exist_ok=True)
AutoModelForTokenClassification.register(ElmoConfig, ElmoForTokenClassification, exist_ok=True)
AutoModelForSequenceClassification.register(ElmoConfig, ElmoForSequenceClassification, exist_ok=True)
AutoModelForQuestionAnswering.register(ElmoConfig, ElmoForQuestionAnswering, exist_ok=True)
AutoTokenizer.register(ElmoConfig, tokenizer_class=ElmoTokenizer, exist_ok=True)
AutoConfig.register("elmo_baseline", BaselineConfig, exist_ok=True)
AutoModelForTokenClassification.register(BaselineConfig, BaselineForTokenClassification, exist_ok=True)
AutoModelForSequenceClassification.register(BaselineConfig, BaselineForSequenceClassification, exist_ok=True)
AutoModelForQuestionAnswering.register(BaselineConfig, BaselineForQuestionAnswering, exist_ok=True)
AutoTokenizer.register(BaselineConfig, tokenizer_class=ElmoTokenizer, exist_ok=True)
