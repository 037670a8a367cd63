"""The sampling functions of `eagle_sample` (sglang.srt.speculative.eagle_utils) on npu.

SGLang takes them from sgl_kernel_npu.sample: None where that import fails, a module where the package has a file of
that name that it does not export, else a kernel whose behaviour on trees nobody has shown. Under dsv4_tree the torch
versions of this package are used, whatever is installed.
"""

from __future__ import annotations

from dsv4_npu_tree.config import tree_active
from dsv4_npu_tree.tree.renorm import top_k_renorm_prob, top_p_renorm_prob
from dsv4_npu_tree.tree.sampling import tree_speculative_sampling_target_only

_SUPPLIED = {
    "tree_speculative_sampling_target_only": tree_speculative_sampling_target_only,
    "top_k_renorm_prob": top_k_renorm_prob,
    "top_p_renorm_prob": top_p_renorm_prob,
}


def install() -> None:
    """Put them into upstream's module, if dsv4_tree is active; call it where the backend is built.

    Raises AttributeError if upstream no longer has a name.
    """
    if not tree_active():
        return
    from sglang.srt.speculative import eagle_utils

    for name, function in _SUPPLIED.items():
        getattr(eagle_utils, name)
        setattr(eagle_utils, name, function)
