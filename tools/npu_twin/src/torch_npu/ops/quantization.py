"""Dynamic int8 quantisation."""

import torch

from torch_npu.ops.limits import Limits
from torch_npu.ops.registry import npu_op


@npu_op(
    "npu_dynamic_quant(Tensor input, *, Tensor? smooth_scales=None, Tensor? group_index=None, int? dst_type=None, "
    'str quant_mode="pertoken", float dst_type_max=0.0) -> (Tensor, Tensor)'
)
def npu_dynamic_quant(
    x: torch.Tensor,
    *,
    smooth_scales: torch.Tensor | None = None,
    group_index: torch.Tensor | None = None,
    dst_type: int | None = None,
    quant_mode: str = "pertoken",
    dst_type_max: float = 0.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Per token: scale = max|x| / 127 (fp32), q = round half to even of x / scale.

    x: ``[..., D]`` bf16/fp16. Returns (int8 like x, fp32 ``[...]``). An all-zero token gives scale 0 and zeros.
    """
    limits = Limits("npu.npu_dynamic_quant")
    limits.require(x.dtype in (torch.bfloat16, torch.float16), "input.dtype", x.dtype, "must be bf16 or fp16")
    limits.require(quant_mode == "pertoken", "quant_mode", quant_mode, "only pertoken is modelled")
    limits.require(smooth_scales is None and group_index is None, "smooth_scales", "given", "is not modelled")
    limits.require(dst_type in (None, 1, torch.int8), "dst_type", dst_type, "only int8 is modelled")
    wide = x.double()
    scale = (wide.abs().amax(-1) / 127.0).float()
    divisor = torch.where(scale == 0, 1.0, scale).double().unsqueeze(-1)
    return torch.round(wide / divisor).clamp_(-128, 127).to(torch.int8), scale
