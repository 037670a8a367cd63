// Tiling of kv_relocate: jobs, their size in UB, and how they are dealt to cores.
#pragma once

#include <cstdint>
#include <vector>

#include "../op_kernel/kv_relocate_layout.h"
#include "kv_relocate.h"

namespace dsv4::kv_relocate {

struct Tiling {
    uint32_t blocks = 0;
    uint32_t slots = 0;
    uint32_t slot_bytes = 0;
    std::vector<int64_t> plan;  // rows of kPlanColumns: one per block, then one per buffer
};

// Returns a Dsv4Status. blocks is 0 if there is nothing to move.
int tile(const KvRelocateArgs& args, uint32_t cores, Tiling& tiling, char* error, size_t error_size);

// Bounds, duplicate destinations and independence of jobs and of buffer pairs, for run values in host memory.
int validate(const KvRelocateArgs& args, char* error, size_t error_size);

}  // namespace dsv4::kv_relocate
