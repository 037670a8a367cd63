"""Refusals. A message names the op, the argument and its value."""

from dataclasses import dataclass

import torch

from torch_npu.environment import relaxed_dims


class Refused(RuntimeError):
    """A call that a card refuses, or whose result it leaves undefined."""


@dataclass(frozen=True)
class Limits:
    """The checks of one op."""

    op: str

    def require(self, condition: bool, argument: str, value, rule: str) -> None:
        if not condition:
            self.refuse(argument, value, rule)

    def refuse(self, argument: str, value, rule: str):
        raise Refused(f"npu twin: {self.op}: {argument} = {value}: {rule}")

    def require_dim(self, condition: bool, argument: str, value, rule: str) -> None:
        """A fixed width or count of the card's kernels; lifted by NPU_TWIN_RELAXED_DIMS."""
        if not condition and not relaxed_dims():
            self.refuse(argument, value, rule + " (NPU_TWIN_RELAXED_DIMS=1 lifts this)")

    def tensor(
        self,
        argument: str,
        tensor: torch.Tensor | None,
        dtypes: tuple[torch.dtype, ...] = (),
        dim: int | None = None,
        required: bool = True,
    ) -> None:
        """Presence, dtype, number of dimensions and contiguity."""
        if tensor is None:
            self.require(not required, argument, None, "is required")
            return
        if dtypes:
            names = " or ".join(str(dtype) for dtype in dtypes)
            self.require(tensor.dtype in dtypes, f"{argument}.dtype", tensor.dtype, f"must be {names}")
        if dim is not None:
            self.require(tensor.dim() == dim, f"{argument}.shape", tuple(tensor.shape), f"must have {dim} dimensions")
        self.require(tensor.is_contiguous(), f"{argument}.stride()", tensor.stride(), "must be contiguous")

    def cumulative(self, argument: str, ends: list[int], total: int) -> None:
        """Row offsets: never falling, last one the number of rows of the call."""
        rising = all(a <= b for a, b in zip(ends, ends[1:], strict=False))
        self.require(rising, argument, ends, "must not fall")
        self.require(ends[-1] == total, argument, ends, f"must end at the {total} rows of the call")

    def stored(self, argument: str, used: list[int], ends: list[int]) -> None:
        """Stored tokens of each request, its query rows included. 0 is a request of padding: no row of it stands at a
        position, so it sees nothing and gets zeros (an indexer: -1). A length between 0 and the query rows would give
        zeros to some rows; only a caller that forgot the rows of the call passes one, so it raises."""
        for request, count in enumerate(used):
            rows = ends[request + 1] - ends[request]
            self.require(
                count == 0 or count >= rows, f"{argument}[{request}]", count, f"the request has {rows} query rows"
            )

    def block_size(self, argument: str, rows: int) -> None:
        self.require(
            rows % 16 == 0 and 0 < rows <= 1024, argument, rows, "block size must be a multiple of 16, <= 1024"
        )
