// The two DMA engines.
#include "host_layer/copy.h"

namespace dsv4::host {

namespace {

// Blocks that touch on both sides are one range.
Transfer merged(Transfer t, bool allowed) {
    if (allowed && t.gm_step == t.bytes && t.ub_step == t.bytes) return {1, t.bytes * t.blocks, 0, 0};
    return t;
}

}  // namespace

void copy_in(Instruction& dma, const UbView& ub, const GmView& gm, const Transfer& transfer, uint32_t left,
             uint32_t right, const void* fill, uint32_t unit) {
    if (transfer.blocks == 0 || transfer.bytes == 0) return;
    const Transfer t = merged(transfer, left + right == 0 && transfer.bytes % kBlock == 0);
    const uint32_t defined = left + t.bytes + right, padded = round_up(defined, kBlock);
    dma.operand(ub, (t.blocks - 1) * t.ub_step + padded, kBlock);
    for (uint32_t i = 0; i < t.blocks; ++i) {
        uint8_t* to = ub.data + i * t.ub_step;
        const auto from = static_cast<int64_t>(i * t.gm_step);
        dma.reads_gm(gm, from, t.bytes);
        dma.writes(to, defined);
        if (padded > defined) dma.leaves_undefined(to + defined, padded - defined);
        for (uint32_t at = 0; at < left; at += unit) std::memcpy(to + at, fill, unit);
        std::memcpy(to + left, gm.data + from, t.bytes);
        for (uint32_t at = 0; at < right; at += unit) std::memcpy(to + left + t.bytes + at, fill, unit);
    }
}

void copy_out(Instruction& dma, const GmView& gm, const UbView& ub, const Transfer& transfer) {
    if (transfer.blocks == 0 || transfer.bytes == 0) return;
    const Transfer t = merged(transfer, transfer.bytes % kBlock == 0);
    dma.operand(ub, (t.blocks - 1) * t.ub_step + t.bytes, kBlock);
    for (uint32_t i = 0; i < t.blocks; ++i) {
        const uint8_t* from = ub.data + i * t.ub_step;
        const auto to = static_cast<int64_t>(i * t.gm_step);
        dma.reads(from, t.bytes);
        dma.writes_gm(gm, to, t.bytes);
        std::memcpy(gm.data + to, from, t.bytes);
    }
}

}  // namespace dsv4::host
