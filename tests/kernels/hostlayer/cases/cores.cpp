// Several cores, and the scalar data cache.
#include "case.h"

namespace cases {
namespace {

template <typename T>
void publish(const GlobalTensor<T>& tensor) {
    DataCacheCleanAndInvalid<T, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(tensor);
}

// M6: two cores SetValue neighbours in one 64-byte line.
template <bool FAULT>
void m6_false_sharing(Tensors& t) {
    const auto core = static_cast<uint32_t>(GetBlockIdx());
    GlobalTensor<int32_t> mine = t.y[FAULT ? core : 16 * core];
    mine.SetValue(0, 1);
    publish(mine);
}
CASE(m6_false_sharing, 2);

// M13: read of a neighbour's output without SyncAll.
template <bool FAULT>
void m13_no_sync_all(Tensors& t) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> out, in;
    pipe.InitBuffer(out, 256);
    pipe.InitBuffer(in, 256);
    const auto core = static_cast<uint32_t>(GetBlockIdx()), cores = static_cast<uint32_t>(GetBlockNum());
    Duplicate(out.Get<int32_t>(), static_cast<int32_t>(core), 64);
    order<HardEvent::V_MTE3>();
    DataCopy(t.y[core * 64], out.Get<int32_t>(), 64);
    if (!FAULT) SyncAll();
    DataCopy(in.Get<int32_t>(), t.y[(core + 1) % cores * 64], 64);
}
CASE_WITH_SYNC_ALL(m13_no_sync_all, 4);

// M17: SetValue, then DMA of that line.
template <bool FAULT>
void m17_dirty_line(Tensors& t) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> in;
    pipe.InitBuffer(in, 64);
    t.y.SetValue(0, 1);
    if (!FAULT) publish(t.y);
    order<HardEvent::S_MTE2>();
    DataCopy(in.Get<int32_t>(), t.y, 16);
    if (FAULT) publish(t.y);
}
CASE(m17_dirty_line, 1);

// SetValue that nobody writes back.
template <bool FAULT>
void dirty_at_end(Tensors& t) {
    t.y.SetValue(0, 1);
    if (!FAULT) publish(t.y);
}
CASE(dirty_at_end, 1);

// A line read before and after another core's DMA.
template <bool FAULT>
void stale_line(Tensors& t) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> out;
    pipe.InitBuffer(out, 64);
    if (!first_core()) (void)t.y.GetValue(0);
    SyncAll();
    if (first_core()) {
        Duplicate(out.Get<int32_t>(), 1, 16);
        order<HardEvent::V_MTE3>();
        DataCopy(t.y, out.Get<int32_t>(), 16);
    }
    SyncAll();
    if (!first_core() && !FAULT) publish(t.y);
    if (!first_core()) (void)t.y.GetValue(0);
}
CASE_WITH_SYNC_ALL(stale_line, 2);

// Two cores store to the same row.
template <bool FAULT>
void two_writers(Tensors& t) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> out;
    pipe.InitBuffer(out, 256);
    Duplicate(out.Get<int32_t>(), 1, 64);
    order<HardEvent::V_MTE3>();
    DataCopy(t.y[FAULT ? 0 : 64 * static_cast<uint32_t>(GetBlockIdx())], out.Get<int32_t>(), 64);
}
CASE(two_writers, 2);

// A core that does not come to SyncAll.
template <bool FAULT>
void missing_core(Tensors&) {
    if (!FAULT || first_core()) SyncAll();
}
CASE_WITH_SYNC_ALL(missing_core, 3);

// The hardware barrier in a kernel that does not declare it.
template <bool FAULT>
void sync_all_kernel_type(Tensors&) {
    dsv4::host::declare_kernel_type(FAULT ? KERNEL_TYPE_AIV_ONLY : KERNEL_TYPE_MIX_AIV_1_0);
    SyncAll();
}
CASE(sync_all_kernel_type, 2);

// The software barrier needs a zeroed workspace.
template <bool FAULT>
void soft_workspace(Tensors& t) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> local;
    pipe.InitBuffer(local, 128);
    SyncAll(FAULT ? t.x : t.w, local.Get<int32_t>());
}
CASE(soft_workspace, 4);

// Scalar GM read of what this core's DMA is still storing.
template <bool FAULT>
void scalar_read_after_store(Tensors& t) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> out;
    pipe.InitBuffer(out, 64);
    Duplicate(out.Get<int32_t>(), 1, 16);
    order<HardEvent::V_MTE3>();
    DataCopy(t.y, out.Get<int32_t>(), 16);
    if (!FAULT) order<HardEvent::MTE3_S>();
    (void)t.y.GetValue(0);
}
CASE(scalar_read_after_store, 1);

}  // namespace
}  // namespace cases
