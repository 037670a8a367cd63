"""What a sequence owns, by position, and the bytes of everything that it does not own.

Addresses are computed with SGLang's translations, not with the plugin's.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

WINDOW = 128  # sliding window of the model, its own token included


def buffers(pool) -> dict[str, torch.Tensor]:
    """Every tensor of the pool as flat rows ``[rows, width]``: KV of each kind and layer, compressor states."""
    found: dict[str, torch.Tensor] = {}
    indexer = pool._indexer_pool(4)
    groups = {
        "swa": pool.swa_kv_pool.kv_buffer,
        "c4": pool.c4_kv_pool.kv_buffer,
        "index_k": indexer.index_k_buffer,
        "index_scale": indexer.index_scale_buffer,
        "c128": pool.c128_kv_pool.kv_buffer,
    }
    for name, group in groups.items():
        for layer, buffer in enumerate(group):
            found[f"{name}[{layer}]"] = buffer.view(-1, buffer.shape[-1])
    for layer, state in enumerate(pool.compress_state_pools):
        if state is not None:
            found[f"state_c{state.ratio}[layer {layer}]"] = state.kv_score_buffer.kv_score
    for layer, state in enumerate(pool.indexer_compress_state_pools):
        if state is not None:
            found[f"state_indexer[layer {layer}]"] = state.kv_score_buffer.kv_score
    return found


def _kind(name: str) -> str:
    return name.split("[")[0]


@dataclass(frozen=True)
class Owned:
    """Rows of one buffer that a sequence reads again: ``index`` are positions or compressed entries."""

    index: torch.Tensor
    rows: torch.Tensor


def owned_rows(rig, sequence, length: int) -> dict[str, Owned]:
    """Live rows of every buffer for the first ``length`` tokens of a sequence.

    SWA: the last 127 positions (the next token's window). C4, indexer and C128: all entries. States: the tokens that
    the next compressed entry pools, last ``length % 4 + 4`` and ``length % 128``.
    """
    pool, requests = rig.pool, rig.requests
    table = requests.req_to_token[sequence.row].long().cpu()
    to_swa = rig.allocator.translate_loc_from_full_to_swa

    def span(first: int, end: int) -> torch.Tensor:
        return torch.arange(max(first, 0), end)

    window = span(length - WINDOW + 1, length)
    entries4, entries128 = span(0, length // 4), span(0, length // 128)
    page = requests.c128_page_size
    sidecar = requests.req_to_c128_sidecar[sequence.row].long().cpu()
    history4, history128 = span(length - length % 4 - 4, length), span(length - length % 128, length)
    swa_of_history = to_swa(table[history4].to(rig.device))
    rows = {
        "swa": Owned(window, to_swa(table[window].to(rig.device)).cpu()),
        "c4": Owned(entries4, table[entries4 * 4] // 4),
        "c128": Owned(entries128, sidecar[entries128 // page] * page + entries128 % page),
    }
    rows["index_k"] = rows["index_scale"] = rows["c4"]
    for state in [*pool.compress_state_pools, *pool.indexer_compress_state_pools]:
        if state is None:
            continue
        if state.ratio == 4:
            at = state.translate_from_swa_loc_to_state_loc(swa_of_history).cpu()
            rows["state_c4"] = rows["state_indexer"] = Owned(history4, at)
        else:
            request = torch.full((len(history128),), sequence.row, device=rig.device)
            at = state.translate_from_req_position_to_state_loc(request, history128.to(rig.device)).cpu()
            rows["state_c128"] = Owned(history128, at)
    return {name: rows[_kind(name)] for name in buffers(pool)}


@dataclass(frozen=True)
class State:
    """Contents of the live rows of a sequence: buffer name -> (positions or entries, rows)."""

    length: int
    content: dict[str, tuple[torch.Tensor, torch.Tensor]]


def live_state(rig, sequence, length: int | None = None) -> State:
    length = sequence.length if length is None else length
    owned = owned_rows(rig, sequence, length)
    rows = {name: buffer[owned[name].rows.to(rig.device)].cpu() for name, buffer in buffers(rig.pool).items()}
    return State(length, {name: (owned[name].index, content) for name, content in rows.items()})


def arena_start(rig, name: str) -> int | None:
    """First arena row of a buffer, None where it has no arena (compressor states)."""
    arena = rig.pool.dsv4_tree_arena
    space = {"swa": arena.swa, "c4": arena.c4, "index_k": arena.c4, "index_scale": arena.c4, "c128": arena.c128}
    found = space.get(_kind(name))
    return None if found is None else found.base


def committed_bytes(rig) -> dict[str, torch.Tensor]:
    """A copy of every row outside the arena."""
    return {name: buffer[: arena_start(rig, name)].to("cpu", copy=True) for name, buffer in buffers(rig.pool).items()}


def poison_arena(rig) -> None:
    """Fill the arena with values that show: NaN, and 127 in the integer buffers."""
    for name, buffer in buffers(rig.pool).items():
        start = arena_start(rig, name)
        if start is not None:
            buffer[start:] = float("nan") if buffer.is_floating_point() else 127


def commit_rows(rig, sequence, first: int, count: int) -> dict[str, torch.Tensor]:
    """Rows of every buffer that accepting the tokens at positions ``first .. first + count - 1`` may write."""
    pool, requests, row = rig.pool, rig.requests, sequence.row
    position = torch.arange(first, first + count)
    slot = requests.req_to_token[row].long().cpu()[position]
    swa = rig.allocator.translate_loc_from_full_to_swa(slot.to(rig.device))
    page = requests.c128_page_size
    closing = position[(position + 1) % 128 == 0] // 128
    c128 = requests.req_to_c128_sidecar[row].long().cpu()[closing // page] * page + closing % page
    rows = {"swa": swa.cpu(), "c4": slot[slot % 4 == 3] // 4, "c128": c128}
    rows["index_k"] = rows["index_scale"] = rows["c4"]
    for state in [*pool.compress_state_pools, *pool.indexer_compress_state_pools]:
        if state is None:
            continue
        if state.ratio == 4:
            rows["state_c4"] = rows["state_indexer"] = state.translate_from_swa_loc_to_state_loc(swa).cpu()
        else:
            request = torch.full((count,), row, device=rig.device)
            rows["state_c128"] = state.translate_from_req_position_to_state_loc(request, position.to(rig.device)).cpu()
    return {name: rows[_kind(name)] for name in buffers(pool)}


def held_rows(rig, sequence) -> dict[str, torch.Tensor]:
    """Every row of every buffer that a sequence holds, the reserve of its next round included; C128 state rows
    (SGLang clears those of a finished request) left out."""
    slot = rig.requests.req_to_token[sequence.row, : sequence.req.kv.kv_allocated_len].long()
    swa = rig.allocator.translate_loc_from_full_to_swa(slot)
    page, sidecar = rig.requests.c128_page_size, rig.requests.req_to_c128_sidecar[sequence.row].long()
    entries = (sidecar[sidecar > 0][:, None] * page + torch.arange(page, device=rig.device)).flatten()
    rows = {"swa": swa, "c4": slot[::4] // 4, "c128": entries}
    rows["index_k"] = rows["index_scale"] = rows["c4"]
    state = next(s for s in rig.pool.compress_state_pools if s is not None and s.ratio == 4)
    rows["state_c4"] = rows["state_indexer"] = state.translate_from_swa_loc_to_state_loc(swa)
    return {name: rows[_kind(name)] for name in buffers(rig.pool) if _kind(name) in rows}


def spoil(rig, sequence) -> None:
    """Overwrite everything that a sequence holds, so that a reused page cannot remember it."""
    found = buffers(rig.pool)
    for name, rows in held_rows(rig, sequence).items():
        found[name][rows] = float("nan") if found[name].is_floating_point() else 127
