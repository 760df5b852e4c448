"""What is used of transformers, for the type checker: its own `__init__` makes it read 2,800 files of models."""

from typing import Any

from transformers.models.auto.tokenization_auto import AutoTokenizer as AutoTokenizer
from transformers.tokenization_python import PreTrainedTokenizer as PreTrainedTokenizer
from transformers.tokenization_utils_base import PreTrainedTokenizerBase as PreTrainedTokenizerBase
from transformers.tokenization_utils_tokenizers import PreTrainedTokenizerFast as PreTrainedTokenizerFast

__version__: str
AutoModelForCausalLM: Any
