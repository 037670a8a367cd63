"""A tiny trained DeepSeek-V4 checkpoint: how it is built, loaded and measured."""

from pathlib import Path

from tools.tiny_checkpoint.torchvision_ops import declare_torchvision_ops

declare_torchvision_ops()  # before anything imports transformers

from tools.tiny_checkpoint.corpus import heldout_prompts  # noqa: E402
from tools.tiny_checkpoint.nextn import nextn_model  # noqa: E402
from tools.tiny_checkpoint.target import hf_model, target_streams  # noqa: E402

MODEL_DIR = Path(__file__).parent / "model"

__all__ = ["MODEL_DIR", "heldout_prompts", "hf_model", "nextn_model", "target_streams"]
