"""DeepSeek-V4 shared-KV sparse attention: window part plus optional compressed part.

Templates: SWA (no compressed part), CFA (all compressed rows below the causal limit), SCFA (selected compressed rows).
Row i of request b, with q_len s1 and S = seqused_kv[b], stands at position p = S - s1 + i. It sees the window
``[max(p - left, 0), min(p + right, S - 1)]`` and the compressed rows below ``(p + 1) // cmp_ratio``. A request of
padding has S = 0: its rows stand before position 0, see nothing and get zeros, and its line of a table is never read.
"""

from dataclasses import dataclass

import torch

from torch_npu.ops.attention_metadata import attention_plan
from torch_npu.ops.attention_rows import Visible, attend
from torch_npu.ops.limits import Limits
from torch_npu.ops.paging import physical_slots
from torch_npu.ops.registry import custom_op, npu_op

_INT = (torch.int32,)
_HALF = (torch.float16, torch.bfloat16)
_SCHEMA = (
    "(Tensor q, *, Tensor? ori_kv=None, Tensor? cmp_kv=None, Tensor? ori_sparse_indices=None, "
    "Tensor? cmp_sparse_indices=None, Tensor? ori_block_table=None, Tensor? cmp_block_table=None, "
    "Tensor? cu_seqlens_q=None, Tensor? cu_seqlens_ori_kv=None, Tensor? cu_seqlens_cmp_kv=None, "
    "Tensor? seqused_q=None, Tensor? seqused_kv=None, Tensor? sinks=None, Tensor? metadata=None, "
    "float softmax_scale=0, int cmp_ratio=0, int ori_mask_mode=4, int cmp_mask_mode=3, int ori_win_left=128, "
    "int ori_win_right=0, str layout_q='BSND', str layout_kv='PA_ND', bool return_softmax_lse=False) "
    "-> (Tensor, Tensor)"
)
# Rows that are attended together: neighbours of one prefill share their window, rows of different requests do not.
_PREFILL_ROWS = 128
_DECODE_ROWS = 16


@dataclass
class Call:
    """Arguments of one call after the checks. B requests, T query rows, H heads, width D."""

    limits: Limits
    q: torch.Tensor  # [T, H, D]
    ori_kv: torch.Tensor  # [blocks, rows, 1, D]
    cmp_kv: torch.Tensor | None
    ori_sparse_indices: torch.Tensor | None  # [T, 1, K], physical slots, ends at the first negative
    cmp_sparse_indices: torch.Tensor | None  # [T, 1, K], logical compressed rows
    ori_block_table: torch.Tensor  # [>= B, columns]
    cmp_block_table: torch.Tensor | None  # [B, columns]
    sinks: torch.Tensor  # [H]
    scale: float
    ratio: int
    window: tuple[int, int]  # left, right
    ends: list[int]  # [B + 1]
    used: list[int]  # [B]

    def __post_init__(self):
        lengths = torch.tensor(self.ends[1:]) - torch.tensor(self.ends[:-1])
        self.batch = torch.repeat_interleave(torch.arange(len(self.used)), lengths)
        self.stored = torch.tensor(self.used)[self.batch]
        self.position = self.stored - torch.tensor(self.ends[1:])[self.batch] + torch.arange(self.q.shape[0])

    def run(self) -> torch.Tensor:
        rows = self.q.shape[0]
        step = _PREFILL_ROWS if rows >= 16 * len(self.used) else _DECODE_ROWS
        out = torch.empty_like(self.q)
        for start in range(0, rows, step):
            end = min(start + step, rows)
            parts = [self._window_part(start, end)]
            if self.cmp_kv is not None:
                parts.append(self._compressed_part(start, end))
            out[start:end] = attend(self.q[start:end], parts, self.sinks, self.scale)
        return out

    def _window_part(self, start: int, end: int) -> Visible:
        pool = self.ori_kv.view(-1, self.ori_kv.shape[-1])
        if self.ori_sparse_indices is not None:
            return self._listed_part(pool, start, end)
        left, right = self.window
        position = self.position[start:end, None]
        logical = position + torch.arange(-left, right + 1)
        read = (logical >= 0) & (logical < self.stored[start:end, None])
        slots = self._slots("ori_block_table", self.ori_block_table, self.ori_kv, start, end, logical, read)
        return Visible(pool, slots, read)

    def _listed_part(self, pool: torch.Tensor, start: int, end: int) -> Visible:
        """Physical slots as given: no window, no table, no causal check; at most seqused_kv of them."""
        slots = self.ori_sparse_indices[start:end, 0].long()
        before_end = torch.cumsum(slots < 0, dim=1) == 0
        read = before_end & (torch.arange(slots.shape[1]) < self.stored[start:end, None])
        beyond = read & (slots >= pool.shape[0])
        if bool(beyond.any()):
            row, column = beyond.nonzero()[0].tolist()
            self.limits.refuse(
                f"ori_sparse_indices[{start + row}, 0, {column}]",
                int(slots[row, column]),
                f"pool has {pool.shape[0]} slots",
            )
        return Visible(pool, torch.where(read, slots, 0), read)

    def _compressed_part(self, start: int, end: int) -> Visible:
        pool = self.cmp_kv.view(-1, self.cmp_kv.shape[-1])
        limit = ((self.position[start:end] + 1) // self.ratio).clamp(min=0)[:, None]
        if self.cmp_sparse_indices is None:
            logical = torch.arange(int(limit.max())).expand(end - start, -1)
            read = logical < limit
        else:
            logical = self.cmp_sparse_indices[start:end, 0].long()
            read = torch.arange(logical.shape[1]) < limit
            self._require_selected(start, logical, read, limit)
        slots = self._slots("cmp_block_table", self.cmp_block_table, self.cmp_kv, start, end, logical, read)
        return Visible(pool, slots, read)

    def _require_selected(self, start: int, logical: torch.Tensor, read: torch.Tensor, limit: torch.Tensor) -> None:
        """The kernel attends exactly min(K, limit) columns; an invalid one among them leaves a stale row in."""
        invalid = read & ((logical < 0) | (logical >= limit))
        if bool(invalid.any()):
            row, column = invalid.nonzero()[0].tolist()
            self.limits.refuse(
                f"cmp_sparse_indices[{start + row}, 0, {column}]",
                int(logical[row, column]),
                f"the first {int(read[row].sum())} entries of this row must lie in [0, {int(limit[row])})",
            )

    def _slots(self, argument, table, pool, start, end, logical, read) -> torch.Tensor:
        return physical_slots(self.limits, argument, table, pool, self.batch[start:end, None], logical, read)


def _checked(op: str, honours_ori_indices: bool, q: torch.Tensor, options: dict) -> Call:
    limits = Limits(op)
    get = options.get
    require, require_dim = limits.require, limits.require_dim
    require(get("layout_q", "BSND") == "TND", "layout_q", get("layout_q", "BSND"), "only TND is modelled")
    require(get("layout_kv", "PA_ND") == "PA_ND", "layout_kv", get("layout_kv"), "must be PA_ND")
    require(not get("return_softmax_lse"), "return_softmax_lse", True, "the host refuses it")
    limits.tensor("q", q, _HALF, dim=3)
    require_dim(q.shape[1] == 64, "q.shape[1]", q.shape[1], "must be 64 heads")
    require_dim(q.shape[2] == 512, "q.shape[2]", q.shape[2], "must be 512")
    for name in ("cu_seqlens_q", "seqused_kv"):
        limits.tensor(name, get(name), _INT, dim=1)
    require(get("seqused_q") is None, "seqused_q", "given", "must be absent with TND")
    ori, cmp = get("ori_kv"), get("cmp_kv")
    for name, pool in (("ori_kv", ori), ("cmp_kv", cmp)):
        if pool is not None or name == "ori_kv":
            limits.tensor(name, pool, (q.dtype,), dim=4)
            limits.block_size(f"{name}.shape[1]", pool.shape[1])
            require(
                pool.shape[2:] == (1, q.shape[2]), f"{name}.shape", tuple(pool.shape), "must be [blocks, rows, 1, D]"
            )
    limits.tensor("sinks", get("sinks"), (torch.float32,), dim=1)
    require(get("sinks").numel() == q.shape[1], "sinks.shape", tuple(get("sinks").shape), "needs one sink a head")
    require(get("ori_mask_mode", 4) == 4, "ori_mask_mode", get("ori_mask_mode"), "must be 4")
    require(get("cmp_mask_mode", 3) == 3, "cmp_mask_mode", get("cmp_mask_mode"), "must be 3")
    left, right = get("ori_win_left", 128), get("ori_win_right", 0)
    require(min(left, right) >= 0, "ori_win_left, ori_win_right", (left, right), "must be >= 0")

    ends, used = get("cu_seqlens_q").tolist(), get("seqused_kv").tolist()
    require(ends[0] == 0, "cu_seqlens_q", ends, "must start with 0")
    limits.cumulative("cu_seqlens_q", ends, q.shape[0])
    requests = len(ends) - 1
    require(len(used) == requests, "seqused_kv.shape", (len(used),), f"cu_seqlens_q has {requests} requests")
    limits.stored("seqused_kv", used, ends)
    limits.tensor("ori_block_table", get("ori_block_table"), _INT, dim=2)
    lines = get("ori_block_table").shape[0]
    require(lines >= requests, "ori_block_table.shape[0]", lines, f"{requests} requests read past it")

    cmp_indices, ori_indices = get("cmp_sparse_indices"), get("ori_sparse_indices")
    ratio = get("cmp_ratio", 0)
    if cmp is not None:
        require(ratio in (4, 128), "cmp_ratio", ratio, "must be 4 or 128")
        limits.tensor("cmp_block_table", get("cmp_block_table"), _INT, dim=2)
        lines = get("cmp_block_table").shape[0]
        require(lines == requests, "cmp_block_table.shape[0]", lines, f"must be the {requests} requests")
    require(cmp is not None or cmp_indices is None, "cmp_sparse_indices", "given", "needs cmp_kv")
    if cmp_indices is not None:
        _check_indices(limits, "cmp_sparse_indices", cmp_indices, q.shape[0])
        require_dim(
            cmp_indices.shape[2] in (512, 1024), "cmp_sparse_indices.shape[2]", cmp_indices.shape[2], "512 or 1024"
        )
        require(
            left + right + 1 <= 128, "ori_win_left + ori_win_right + 1", left + right + 1, "SCFA is wrong above 128"
        )
    if ori_indices is not None:
        _check_indices(limits, "ori_sparse_indices", ori_indices, q.shape[0])
        wide = ori_indices.shape[2]
        require(wide % 128 == 0 and 0 < wide <= 2048, "ori_sparse_indices.shape[2]", wide, "multiple of 128, <= 2048")
        if cmp_indices is not None or not honours_ori_indices:
            ori_indices = None
    selected = 0 if cmp_indices is None else cmp_indices.shape[2]
    plan = attention_plan(ends, 1 if cmp is None else ratio, selected)
    limits.tensor("metadata", get("metadata"), _INT)
    plan.check(limits, get("metadata"))
    return Call(
        limits=limits,
        q=q,
        ori_kv=ori,
        cmp_kv=cmp,
        ori_sparse_indices=ori_indices,
        cmp_sparse_indices=cmp_indices,
        ori_block_table=get("ori_block_table"),
        cmp_block_table=get("cmp_block_table"),
        sinks=get("sinks"),
        scale=get("softmax_scale", 0.0),
        ratio=ratio,
        window=(left, right),
        ends=ends,
        used=used,
    )


def _check_indices(limits: Limits, argument: str, indices: torch.Tensor, rows: int) -> None:
    limits.tensor(argument, indices, _INT, dim=3)
    limits.require(indices.shape[:2] == (rows, 1), f"{argument}.shape", tuple(indices.shape), f"must be [{rows}, 1, K]")


@npu_op("sparse_attn_sharedkv" + _SCHEMA)
def sparse_attn_sharedkv(q: torch.Tensor, **options) -> tuple[torch.Tensor, torch.Tensor]:
    """In-tree op of sgl-kernel-npu. ``ori_sparse_indices`` replaces the window in SWA and CFA; SCFA ignores it in
    silence. Returns (``[T, H, D]`` in q's dtype, empty)."""
    return _checked("npu.sparse_attn_sharedkv", True, q, options).run(), torch.empty(0, dtype=torch.float32)


@custom_op("npu_sparse_attn_sharedkv" + _SCHEMA)
def npu_sparse_attn_sharedkv(q: torch.Tensor, **options) -> tuple[torch.Tensor, torch.Tensor]:
    """CANN's op. ``ori_sparse_indices`` has no effect in any template. Returns (``[T, H, D]`` in q's dtype, empty)."""
    return _checked("custom.npu_sparse_attn_sharedkv", False, q, options).run(), torch.empty(0, dtype=torch.float32)
