"""``torch_npu.multiprocessing``."""
