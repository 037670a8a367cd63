"""Give `eagle_sample` the sampling functions that this platform's kernel package does not have.

On npu SGLang takes tree_speculative_sampling_target_only, top_k_renorm_prob and top_p_renorm_prob from
sgl_kernel_npu.sample. Where that import fails the names are None, and where the package has a file of that name that it
does not export they are modules: the first sampled batch would end in "not callable". The softmax is plain torch.
Seeded coins come from a Triton kernel over uint64 tensors, so they are replaced as well.
"""

from __future__ import annotations

from typing import Any

from dsv4_npu_tree.config import tree_active
from dsv4_npu_tree.hooks.registry import Hook
from dsv4_npu_tree.tree.coins import seeded_verify_coins
from dsv4_npu_tree.tree.renorm import top_k_renorm_prob, top_p_renorm_prob
from dsv4_npu_tree.tree.sampling import tree_speculative_sampling_target_only

_SUPPLIED = {
    "tree_speculative_sampling_target_only": tree_speculative_sampling_target_only,
    "top_k_renorm_prob": top_k_renorm_prob,
    "top_p_renorm_prob": top_p_renorm_prob,
}


def install() -> list[str]:
    """Fill the names that are not callable in sglang.srt.speculative.eagle_utils, if dsv4_tree is active; returns them.

    Call it where the backend is built, before the first verify. Raises AttributeError if upstream no longer has a name.
    """
    if not tree_active():
        return []
    from sglang.srt.speculative import eagle_utils

    missing = [name for name in _SUPPLIED if not callable(getattr(eagle_utils, name))]
    for name in missing:
        setattr(eagle_utils, name, _SUPPLIED[name])
    return missing


def seeded_coins(original: Any, *, sampling_seed: Any, seq_lens: Any, draft_token_num: int, device: Any) -> Any:
    """Around `_seeded_verify_coins`: the same hash without Triton."""
    del original, device
    return seeded_verify_coins(sampling_seed, seq_lens, draft_token_num)


HOOKS = [
    Hook(
        "sglang.srt.speculative.eagle_utils._seeded_verify_coins",
        ("sampling_seed", "seq_lens", "draft_token_num", "device"),
        seeded_coins,
    ),
]
