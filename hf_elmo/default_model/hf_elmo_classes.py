"""The classes of the installed package hf_elmo, for `from_pretrained(..., trust_remote_code=True)`.

This file lies beside the weights of an ELMo model.  It holds no code of the model: a program that never imports
hf_elmo finds it by this file.  After `import hf_elmo` it is not read.
"""

try:
    from hf_elmo import (
        ElmoConfig,
        ElmoForPreTraining,
        ElmoForQuestionAnswering,
        ElmoForSequenceClassification,
        ElmoForTokenClassification,
        ElmoModel,
        ElmoTokenizer,
    )
except ImportError as error:
    if error.name != "hf_elmo":  # something else that hf_elmo needs; its own message says what
        raise
    raise ImportError(
        f"This model is an ELMo, whose classes are in the package hf_elmo ({error}).  Install it, or a newer version:\n"
        "    pip install --upgrade spacy-elmo",
        name="hf_elmo",
    ) from error

__all__ = [
    "ElmoConfig",
    "ElmoForPreTraining",
    "ElmoForQuestionAnswering",
    "ElmoForSequenceClassification",
    "ElmoForTokenClassification",
    "ElmoModel",
    "ElmoTokenizer",
]
