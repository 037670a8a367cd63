// Names of the Ascend C language layer: qualifiers, pipes, events, storage types, parameter structs.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#define __global__
#define __aicore__
#define __gm__
#define __ubuf__

using GM_ADDR = uint8_t*;

enum pipe_t : uint8_t { PIPE_S = 0, PIPE_V = 1, PIPE_MTE2 = 2, PIPE_MTE3 = 3, PIPE_ALL = 4 };

enum event_t { EVENT_ID0, EVENT_ID1, EVENT_ID2, EVENT_ID3, EVENT_ID4, EVENT_ID5, EVENT_ID6, EVENT_ID7 };

enum KernelMetaType { KERNEL_TYPE_NONE, KERNEL_TYPE_AIV_ONLY, KERNEL_TYPE_MIX_AIV_1_0 };

// Storage only: the vector unit's half arithmetic is not part of the subset.
struct half {
    uint16_t bits;
};
struct bfloat16_t {
    uint16_t bits;
};

namespace AscendC {

enum class TPosition : uint8_t { GM, VECIN, VECOUT, VECCALC };

enum class HardEvent : uint8_t {
    MTE2_V,
    V_MTE2,
    MTE3_V,
    V_MTE3,
    MTE2_MTE3,
    MTE3_MTE2,
    S_V,
    V_S,
    S_MTE2,
    MTE2_S,
    S_MTE3,
    MTE3_S,
};
constexpr int kHardEvents = 12;

constexpr pipe_t event_source(HardEvent event) {
    constexpr pipe_t table[kHardEvents] = {PIPE_MTE2, PIPE_V, PIPE_MTE3, PIPE_V,    PIPE_MTE2, PIPE_MTE3,
                                           PIPE_S,    PIPE_V, PIPE_S,    PIPE_MTE2, PIPE_S,    PIPE_MTE3};
    return table[static_cast<int>(event)];
}

constexpr pipe_t event_target(HardEvent event) {
    constexpr pipe_t table[kHardEvents] = {PIPE_V, PIPE_MTE2, PIPE_V,    PIPE_MTE3, PIPE_MTE3, PIPE_MTE2,
                                           PIPE_V, PIPE_S,    PIPE_MTE2, PIPE_S,    PIPE_MTE3, PIPE_S};
    return table[static_cast<int>(event)];
}

enum class RoundMode : uint8_t { CAST_NONE, CAST_RINT, CAST_FLOOR, CAST_CEIL, CAST_ROUND, CAST_TRUNC };
enum class CMPMODE : uint8_t { LT, GT, EQ, LE, GE, NE };
enum class SELMODE : uint8_t { VSEL_CMPMASK_SPR, VSEL_TENSOR_SCALAR_MODE, VSEL_TENSOR_TENSOR_MODE };
enum class CacheLine : uint8_t { SINGLE_CACHE_LINE, ENTIRE_DATA_CACHE };
enum class DcciDst : uint8_t { CACHELINE_ALL, CACHELINE_UB, CACHELINE_OUT, CACHELINE_ATOMIC };

// blockLen and the gaps (end of a block to the start of the next) in units of 32 B.
struct DataCopyParams {
    uint16_t blockCount = 1;
    uint16_t blockLen = 0;
    uint16_t srcGap = 0;
    uint16_t dstGap = 0;
};

// blockLen in bytes. Strides are gaps: bytes on the GM side, units of 32 B on the UB side.
struct DataCopyExtParams {
    uint16_t blockCount = 1;
    uint32_t blockLen = 0;
    uint32_t srcStride = 0;
    uint32_t dstStride = 0;
    uint32_t rsv = 0;
};

// Paddings in elements of T, at most 32 B each.
template <typename T>
struct DataCopyPadExtParams {
    bool isPad = false;
    uint8_t leftPadding = 0;
    uint8_t rightPadding = 0;
    T paddingValue{};
};

// Only named by the overloads that are not in the subset.
struct DataCopyPadParams {
    bool isPad = false;
    uint8_t leftPadding = 0;
    uint8_t rightPadding = 0;
    uint64_t paddingValue = 0;
};

}  // namespace AscendC

namespace dsv4::host {

template <typename T, typename... Options>
constexpr bool one_of = (std::is_same_v<T, Options> || ...);

}  // namespace dsv4::host
