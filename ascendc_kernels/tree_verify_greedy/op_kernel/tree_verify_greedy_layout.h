// What host and kernel of tree_verify_greedy agree on.
#pragma once

#include <cstdint>

#include "core_function.h"

namespace dsv4::tree_verify_greedy {

constexpr int32_t kMaxNodes = 64;
constexpr int32_t kMaxColumns = 1024;  // of accept_index
constexpr int32_t kMaxRequests = 1024;

// Bit i of `wide`: tensor i is int64, else int32.
enum Operand : uint32_t {
    PREDICTS,
    ACCEPT_INDEX,
    ACCEPT_TOKEN_NUM,
    CANDIDATES,
    RETRIEVE_INDEX,
    NEXT_TOKEN,
    NEXT_SIBLING,
    TARGET,
    OPERANDS
};

// UB of one request in the group that a core holds, at the widest dtypes.
DSV4_AICORE inline constexpr uint32_t request_bytes(uint32_t n, uint32_t columns) { return 8 * (6 * n + columns + 1); }
constexpr uint32_t kGroupBytes = 188160 - OPERANDS * 32;  // of UB, without the rounding of each buffer

}  // namespace dsv4::tree_verify_greedy
