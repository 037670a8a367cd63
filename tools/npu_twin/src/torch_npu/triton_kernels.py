"""Triton kernels that run as torch code instead of in Triton's interpreter.

The interpreter runs one Python program per grid point, and each of these has a grid point per token. Every other
Triton kernel stays interpreted. Results are those of the kernel, computed in double and rounded once.
"""

import torch

from torch_npu import cpu_view


def hc_head(x, fn, scale, base, y, *, hidden_size, HC_MULT, K_TOTAL, norm_eps, hc_eps, **_) -> None:  # noqa: N803
    """y = sum_m pre_m x_m, pre = sigmoid(fn x / rms(x) * scale + base) + hc_eps.

    x: ``[T, HC_MULT, hidden_size]``. fn: fp32 ``[HC_MULT, K_TOTAL]``. y: ``[T, hidden_size]``, written.
    """
    x, fn, scale, base, y = map(cpu_view, (x, fn, scale, base, y))
    streams = x.double()
    flat = streams.flatten(1)
    mixes = flat @ fn.double().T * torch.rsqrt(flat.square().mean(-1, keepdim=True) + norm_eps)
    weights = torch.sigmoid(mixes * scale.double() + base.double()) + hc_eps
    y.copy_((weights.unsqueeze(-1) * streams).sum(1))


def hc_broadcast(x, y, hidden, stride, *, HC, **_) -> None:  # noqa: N803
    """y[t, k] = x[t] for every k. x: ``[T, hidden]``. y: ``[T, HC, hidden]``, written."""
    cpu_view(y).copy_(cpu_view(x).unsqueeze(1))


_SUBSTITUTES = {
    ("sglang.kernels.ops.layernorm.mhc_head", "_hc_head_kernel"): hc_head,
    ("sglang.kernels.ops.layernorm.mhc", "_hc_broadcast_kernel"): hc_broadcast,
}


def install() -> None:
    """Make the interpreter look here first. Importing Triton takes a second, so this waits for a caller that needs
    it."""
    from triton.runtime.interpreter import InterpretedFunction

    interpret = InterpretedFunction.run
    if getattr(interpret, "looks_for_substitutes", False):
        return

    def run(self, *arguments, grid, warmup, **options):
        substitute = _SUBSTITUTES.get((self.fn.__module__, self.fn.__name__))
        if substitute is None or warmup:
            return interpret(self, *arguments, grid=grid, warmup=warmup, **options)
        return substitute(*arguments, **options)

    run.looks_for_substitutes = True
    InterpretedFunction.run = run
