"""KV compressor: every ``ratio`` tokens become one row, by a softmax per channel over the tokens' score columns."""

import torch

from torch_npu.ops.compressor_state import Work
from torch_npu.ops.limits import Limits
from torch_npu.ops.registry import npu_op

_OP = "npu.compressor"
_FP32 = (torch.float32,)
_INT = (torch.int32,)
# Emitted rows that are pooled together.
_BATCH = 256


@npu_op(
    "compressor(Tensor x, Tensor wkv, Tensor wgate, Tensor(a!) state_cache, Tensor ape, Tensor norm_weight, "
    "Tensor rope_sin, Tensor rope_cos, int rope_head_dim, int cmp_ratio, *, Tensor? state_block_table=None, "
    "Tensor? cu_seqlens=None, Tensor? seqused=None, Tensor? start_pos=None, int coff=1, float norm_eps=1e-06, "
    "int rotary_mode=1, int cache_mode=1) -> Tensor"
)
def compressor(
    x: torch.Tensor,
    wkv: torch.Tensor,
    wgate: torch.Tensor,
    state_cache: torch.Tensor,
    ape: torch.Tensor,
    norm_weight: torch.Tensor,
    rope_sin: torch.Tensor,
    rope_cos: torch.Tensor,
    rope_head_dim: int,
    cmp_ratio: int,
    *,
    state_block_table: torch.Tensor | None = None,
    cu_seqlens: torch.Tensor | None = None,
    seqused: torch.Tensor | None = None,
    start_pos: torch.Tensor | None = None,
    coff: int = 1,
    norm_eps: float = 1e-6,
    rotary_mode: int = 1,
    cache_mode: int = 1,
) -> torch.Tensor:
    """Pool, normalise and rotate the blocks that this call completes; keep the last token rows in the state.

    kv = x wkv^T and score = x wgate^T + ape[p % ratio] are fp32 (double sums, rounded once; the state holds the same
    bits). Pooling, RMSNorm and RoPE are double, rounded once to x's dtype.

    Args:
        x: ``[T, hidden]`` bf16/fp16. wkv, wgate: ``[coff * D, hidden]``.
        state_cache: fp32 ``[blocks, rows, 2 * coff * D]``, changed in place.
        ape: fp32 ``[ratio, coff * D]``. norm_weight: fp32 ``[D]``.
        rope_sin, rope_cos: fp32 ``[>= emitted rows, rope_head_dim]``, pairs repeated, one line per emitted row.
        state_block_table: int32 ``[B, >= coff * ratio + longest request]``, flat state rows.
        cu_seqlens: int32 ``[B + 1]``. seqused, start_pos: int32 ``[B]``, tokens.
        coff: 2 for ratio 4 (a block also pools the block before it), 1 for ratio 128.

    Returns:
        ``[min(T, T // ratio + B), D]``; the emitted rows first, in request order. The rest is undefined on a card and
        holds ``UNDEFINED`` here.
    """
    limits = Limits(_OP)
    work = _checked(limits, locals())
    width = norm_weight.numel()
    request, block = work.emissions()
    limits.require(
        rope_cos.shape[0] >= request.numel() and rope_cos.shape == rope_sin.shape,
        "rope_cos.shape, rope_sin.shape",
        (tuple(rope_cos.shape), tuple(rope_sin.shape)),
        f"{request.numel()} rows are emitted",
    )
    wide = x.double()
    kv = (wide @ wkv.double().T).float()
    score = (wide @ wgate.double().T).float()
    score[work.token] += ape[work.position % cmp_ratio]
    rows = min(x.shape[0], x.shape[0] // cmp_ratio + len(work.used))
    out = torch.full((rows, width), UNDEFINED, dtype=x.dtype)
    current = torch.cat([kv, score], dim=1)
    for first in range(0, request.numel(), _BATCH):
        last = min(first + _BATCH, request.numel())
        pooled = _pool(work, request[first:last], block[first:last], current, width)
        normed = pooled * torch.rsqrt(pooled.square().mean(-1, keepdim=True) + norm_eps) * norm_weight.double()
        _rotate(normed[:, width - rope_head_dim :], rope_cos[first:last].double(), rope_sin[first:last].double())
        out[first:last] = normed.to(x.dtype)
    kept, ring = work.persisted()
    values = current[work.token[kept]]
    work.check_writes(ring, values)
    work.state[ring] = values
    return out


# A number no model produces, so that a consumer of undefined rows shows.
UNDEFINED = 12288.0


def _pool(work: Work, request: torch.Tensor, block: torch.Tensor, current: torch.Tensor, width: int) -> torch.Tensor:
    """double ``[E, D]``: softmax per channel over the block's slots. Left slots (the block before) use columns
    ``[0, D)``, right slots ``[D, 2D)``; with coff 1 there is one set."""
    position, ring, token = work.window(request, block)
    work.check_race(request, position, ring)
    past = (position < work.start[request][:, None])[..., None]
    before = (position < 0)[..., None]
    span = work.coff * width
    values, logits = [], []
    for side in range(work.coff):
        slots = slice(side * work.ratio, (side + 1) * work.ratio)
        columns = slice(side * width, (side + 1) * width)
        gates = slice(span + side * width, span + (side + 1) * width)
        for target, part, absent in ((values, columns, 0.0), (logits, gates, float("-inf"))):
            old = work.state[:, part][ring[:, slots]]
            new = current[:, part][token[:, slots]]
            chosen = torch.where(past[:, slots], old, new)
            target.append(chosen.masked_fill(before[:, slots], absent).double())
    weights = torch.softmax(torch.cat(logits, dim=1), dim=1)
    return (weights * torch.cat(values, dim=1)).sum(1)


def _rotate(tail: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> None:
    """Interleaved RoPE in place on ``[E, rope_head_dim]``."""
    turned = torch.stack((-tail[:, 1::2], tail[:, 0::2]), dim=-1).flatten(-2)
    tail.copy_(tail * cos + turned * sin)


def _checked(limits: Limits, call: dict) -> Work:
    x, wkv, wgate = call["x"], call["wkv"], call["wgate"]
    ratio, coff = call["cmp_ratio"], call["coff"]
    limits.require(call["rotary_mode"] == 2, "rotary_mode", call["rotary_mode"], "must be 2, else output is garbage")
    limits.require(call["cache_mode"] == 2, "cache_mode", call["cache_mode"], "only 2 (explicit rows) is modelled")
    limits.require((coff, ratio) in ((1, 128), (2, 4)), "coff, cmp_ratio", (coff, ratio), "must be (1, 128) or (2, 4)")
    limits.tensor("x", x, (torch.bfloat16, torch.float16), dim=2)
    hidden, width = x.shape[1], call["norm_weight"].numel()
    limits.require_dim(
        1024 <= hidden <= 10240 and hidden % 512 == 0, "x.shape[1]", hidden, "1024..10240, multiple of 512"
    )
    limits.require_dim(width in (128, 512), "norm_weight.shape", (width,), "D must be 128 or 512")
    for name, weight in (("wkv", wkv), ("wgate", wgate)):
        limits.tensor(name, weight, (x.dtype,), dim=2)
        limits.require(
            weight.shape == (coff * width, hidden), f"{name}.shape", tuple(weight.shape), "[coff * D, hidden]"
        )
    state, ape = call["state_cache"], call["ape"]
    limits.tensor("state_cache", state, _FP32, dim=3)
    limits.require(
        state.shape[2] == 2 * coff * width, "state_cache.shape", tuple(state.shape), "last must be 2 * coff * D"
    )
    limits.tensor("ape", ape, _FP32, dim=2)
    limits.require(ape.shape == (ratio, coff * width), "ape.shape", tuple(ape.shape), "must be [ratio, coff * D]")
    limits.tensor("norm_weight", call["norm_weight"], _FP32, dim=1)
    for name in ("rope_sin", "rope_cos"):
        limits.tensor(name, call[name], _FP32, dim=2)
        wide = call[name].shape[1]
        limits.require(wide == call["rope_head_dim"] <= width, f"{name}.shape[1]", wide, "must be rope_head_dim")
    limits.tensor("state_block_table", call["state_block_table"], _INT, dim=2)
    for name in ("cu_seqlens", "seqused", "start_pos"):
        limits.tensor(name, call[name], _INT, dim=1)
    ends, used = call["cu_seqlens"].tolist(), call["seqused"].tolist()
    starts = call["start_pos"].tolist()
    limits.cumulative("cu_seqlens", ends, x.shape[0])
    requests = len(ends) - 1
    for name, count in (
        ("seqused", len(used)),
        ("start_pos", len(starts)),
        ("state_block_table", call["state_block_table"].shape[0]),
    ):
        limits.require(count == requests, f"{name}.shape[0]", count, f"cu_seqlens has {requests} requests")
    limits.require(any(used), "seqused", used, "all requests empty: the kernel never returns")
    for request, count in enumerate(used):
        room = ends[request + 1] - ends[request]
        limits.require(0 <= count <= room, f"seqused[{request}]", count, f"the request has {room} rows")
        limits.require(starts[request] >= 0, f"start_pos[{request}]", starts[request], "must be >= 0")
    return Work(limits, state.view(-1, state.shape[2]), call["state_block_table"], starts, used, ends, ratio, coff)
