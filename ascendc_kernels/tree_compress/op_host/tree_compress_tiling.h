// Checks and core count of tree_compress.
#pragma once

#include "../op_kernel/tree_compress_layout.h"
#include "tree_compress.h"

namespace dsv4::tree_compress {

struct Tiling {
    uint32_t blocks = 0;  // 0: nothing to do
    float eps = 0.0f;     // eps + eps_low = norm_eps to 48 bits
    float eps_low = 0.0f;
};

// Shapes and scalars. Returns a Dsv4Status.
int tile(const TreeCompressArgs& args, uint32_t cores, Tiling& tiling, char* error, size_t error_size);

// Window entries of closing rows, for tables in host memory.
int validate(const TreeCompressArgs& args, char* error, size_t error_size);

}  // namespace dsv4::tree_compress
