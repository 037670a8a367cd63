// Block identity, barriers, flags, data cache.
#pragma once

#include "host_layer/pipe.h"

namespace AscendC {

inline int64_t GetBlockIdx() { return dsv4::host::core().index; }
inline int64_t GetBlockNum() { return dsv4::host::core().count; }

// Orders a pipe with itself; PIPE_ALL orders every pipe with every other.
template <pipe_t PIPE>
void PipeBarrier() {
    static_assert(PIPE != PIPE_S, "PipeBarrier<PIPE_S> is a hardware error");
    dsv4::host::barrier(PIPE);
}

// id: 0..5, or one that FetchEventID or AllocEventID gave (6 and 7 are reserved).
template <HardEvent EVENT>
void SetFlag(int32_t id, dsv4::host::Where where = dsv4::host::Where::here()) {
    dsv4::host::flag_set(EVENT, id, where);
}

template <HardEvent EVENT>
void WaitFlag(int32_t id, dsv4::host::Where where = dsv4::host::Where::here()) {
    dsv4::host::flag_wait(EVENT, id, where);
}

// All cores; the hardware form needs KERNEL_TYPE_MIX_AIV_1_0.
template <bool AIV_ONLY = true>
void SyncAll(dsv4::host::Where where = dsv4::host::Where::here()) {
    static_assert(AIV_ONLY, "host layer: SyncAll of vector cores only");
    dsv4::host::sync_all(where);
}

// Software form: workspace zeroed, at least 32 B per core, in GM and in UB.
template <bool AIV_ONLY = true>
void SyncAll(const GlobalTensor<int32_t>& workspace, const LocalTensor<int32_t>& local, int32_t used = 0,
             dsv4::host::Where where = dsv4::host::Where::here()) {
    static_assert(AIV_ONLY, "host layer: SyncAll of vector cores only");
    dsv4::host::sync_all_soft(workspace.view(), local.view(), used, where);
}

// Writes back and drops the line of `tensor` from its address to the end of the line, or the whole cache.
template <typename T, CacheLine LINE, DcciDst TARGET = DcciDst::CACHELINE_OUT>
void DataCacheCleanAndInvalid(const GlobalTensor<T>& tensor, dsv4::host::Where where = dsv4::host::Where::here()) {
    static_assert(TARGET == DcciDst::CACHELINE_OUT || TARGET == DcciDst::CACHELINE_ALL, "host layer: GM lines only");
    dsv4::host::clean_cache(tensor.view(), LINE == CacheLine::ENTIRE_DATA_CACHE, where);
}

}  // namespace AscendC
