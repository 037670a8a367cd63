"""Verification and sampling kernels of sgl-kernel-npu."""

from sgl_kernel_npu import absent
from sgl_kernel_npu.sample.probability import top_k_renorm_prob, top_p_renorm_prob
from sgl_kernel_npu.sample.tree_speculative_sampling_target_only import tree_speculative_sampling_target_only

__all__ = [
    "chain_speculative_sampling_triton",
    "top_k_renorm_prob",
    "top_p_renorm_prob",
    "tree_speculative_sampling_target_only",
]

chain_speculative_sampling_triton = absent(__name__, "chain_speculative_sampling_triton")
