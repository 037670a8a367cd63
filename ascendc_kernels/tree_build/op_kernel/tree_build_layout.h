// What host and kernel of tree_build agree on.
#pragma once

#include <cstdint>

#include "core_function.h"

namespace dsv4::tree_build {

constexpr int32_t kMaxNodes = 64;  // ancestors are one 64-bit mask
constexpr int32_t kMaxSteps = 16;
constexpr int32_t kMaxTopk = 16;
constexpr int32_t kMaxRequests = 1024;
constexpr uint32_t kMaxDmaBlocks = 4095;

// Which index tensors are int64; the others are int32.
constexpr uint32_t WIDE_PARENT_LIST = 1;
constexpr uint32_t WIDE_SELECTED = 2;
constexpr uint32_t WIDE_SEQ_LENS = 4;

// Mask layouts by their number in SGLang, or none.
enum MaskMode : int32_t { NO_MASK = -1, FULL_MASK = 0, QLEN_ONLY = 1, QLEN_ONLY_BITPACKING = 2 };

DSV4_AICORE inline constexpr uint32_t round_up(uint32_t value, uint32_t unit) {
    return (value + unit - 1) / unit * unit;
}

// Candidate ids are 0 .. pool - 1.
DSV4_AICORE inline constexpr uint32_t pool_of(uint32_t topk, uint32_t steps) {
    return topk + (steps - 1) * topk * topk;
}
DSV4_AICORE inline constexpr uint32_t parent_list_width(uint32_t topk, uint32_t steps) {
    return steps > 1 ? topk * (steps - 1) + 1 : 0;
}

// Bytes of a mask row in UB: DMA blocks start on 32 bytes.
DSV4_AICORE inline constexpr uint32_t mask_pitch(uint32_t n) { return round_up(n, 32); }
// Bytes of a packed mask row.
DSV4_AICORE inline constexpr uint32_t packed_bytes(uint32_t n) { return n <= 8 ? 1 : n <= 16 ? 2 : 4; }

// UB of one request in the group that a core holds, at the widest dtypes.
DSV4_AICORE inline constexpr uint32_t request_bytes(uint32_t topk, uint32_t steps, uint32_t n, uint32_t branches,
                                                    bool mask) {
    const uint32_t in = 8 * parent_list_width(topk, steps) + (8 + 4) * (n - 1) + 8;
    const uint32_t out = 5 * 8 * n + 3 * 4 * n + 4 * branches * (steps + 1);
    return in + out + 4 * n + (mask ? n * mask_pitch(n) : 0);
}

// UB that does not depend on the group: candidate map, leaf heap, child counts, prefix sums, rounding of 20 buffers.
constexpr uint32_t kFixedBytes =
    4 * (kMaxTopk + (kMaxSteps - 1) * kMaxTopk * kMaxTopk) + 8 * kMaxNodes + 4 * kMaxNodes + 8 * kMaxRequests + 20 * 32;
constexpr uint32_t kGroupBytes = 188160 - kFixedBytes;  // of UB

}  // namespace dsv4::tree_build
