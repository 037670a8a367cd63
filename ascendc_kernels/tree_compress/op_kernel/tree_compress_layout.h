// What host and kernel of tree_compress agree on. Sizes in fp32 elements unless named otherwise.
#pragma once

#include <cstdint>

#include "core_function.h"

namespace dsv4::tree_compress {

constexpr int64_t kAbsent = -(int64_t{1} << 31);  // a window entry before the first token
constexpr uint32_t kMaxDim = 512;
constexpr uint32_t kMinDim = 64;
constexpr uint32_t kMaxSlots = 128;  // coff * ratio
constexpr uint32_t kMinSlots = 8;
constexpr uint32_t kMaxRope = 64;
constexpr uint32_t kLoad = 4096;        // slots * channels of one load, for kv and for score
constexpr uint32_t kTile = 1024;        // elements of one vector instruction
constexpr uint32_t kLoads = 2;          // loads in flight
constexpr uint32_t kFlagWindow = 4096;  // closes flags in UB at a time, bytes
constexpr uint32_t kZeros = 2048;       // bf16 elements that one DMA clears

// Channels of one load: all slots of a window are in UB together, so the maximum is known before the first exp.
DSV4_AICORE inline constexpr uint32_t chunk_of(uint32_t dim, uint32_t slots) {
    return dim < kLoad / slots ? dim : kLoad / slots;
}

}  // namespace dsv4::tree_compress
