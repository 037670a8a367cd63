"""The compressor on a tree: project every node, pool every closing node along its path."""

from __future__ import annotations

import torch
from sglang.srt.hardware_backend.npu.attention import ascend_dsv4_backend as upstream
from sglang.srt.hardware_backend.npu.dsv4.dsv4_rope import Dsv4NpuRoPE

from dsv4_npu_tree.ops.compress_project import compress_project
from dsv4_npu_tree.ops.tree_compress import tree_compress
from dsv4_npu_tree.state.project import Projector
from dsv4_npu_tree.state.window import Windows


def project_rows(
    projector: Projector, compressor, x: torch.Tensor, positions: torch.Tensor, out: torch.Tensor | None = None
) -> torch.Tensor:
    """State rows fp32 ``[T, 2*coff*D]`` of tokens x ``[T, hidden]`` at positions int64 ``[T]``, in ``out`` if given."""
    return compress_project(x, projector.weight(compressor), compressor.ape, positions, out)


def pool_entries(
    compressor, rows: torch.Tensor, state: torch.Tensor, windows: Windows, dtype: torch.dtype
) -> torch.Tensor:
    """Compressed entries ``[T, D]`` in ``dtype``, rounded where the stock op rounds; an indexer entry is Hadamard
    transformed after the rounding, as in SGLang's forward_compress."""
    cos, sin = Dsv4NpuRoPE.for_freqs(compressor.freqs_cis, getattr(compressor, "rotary_emb", None)).get_cos_sin(
        windows.first, torch.float32, view_4d=False, allow_build=False
    )
    entries = tree_compress(
        rows,
        state,
        windows.window,
        windows.closes,
        compressor._fused_norm_weight_fp32,
        cos,
        sin,
        coff=windows.ring.coff,
        norm_eps=compressor.norm.variance_epsilon,
    ).to(dtype)
    return upstream._apply_hadamard(entries, compressor.hadamard_matrix) if compressor.rotate else entries
