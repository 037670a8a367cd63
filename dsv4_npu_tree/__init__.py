"""EAGLE tree speculation for DeepSeek-V4 on Ascend NPU, as a SGLang plugin."""

__version__ = "0.1.0"
BACKEND = "dsv4_tree"
