// C ABI of tree_compress: one compressed entry per closing node, pooled along the node's own path.
#pragma once

#include "abi.h"

#ifdef __cplusplus
extern "C" {
#endif

enum TreeCompressMode {
    TREE_COMPRESS_FP32 = 0,   // fp32 throughout: the accuracy of a card's fused op
    TREE_COMPRESS_PAIRS = 1,  // pairs of floats: rounds to bf16 as the double formula does
};

// Pointers are device memory, contiguous. width = 2 * coff * dim.
typedef struct TreeCompressArgs {
    const float* scratch;      // [rows, width]: kv | score of this tree's nodes
    const float* state;        // [state_rows, width]
    const int64_t* window;     // [rows, coff * ratio]: state row, -1 - scratch row, or -2^31 (absent)
    const uint8_t* closes;     // [rows]: 0 or 1
    const float* norm_weight;  // [dim]
    const float* cos;          // [rows, rope], each value twice
    const float* sin;
    void* out;  // bf16 [rows, dim]
    int64_t rows;
    int64_t state_rows;
    int64_t dim;    // 64, 128, 256 or 512
    int64_t coff;   // 1 or 2
    int64_t ratio;  // coff * ratio: a power of two, 8..128
    int64_t rope;   // a multiple of 8, at most 64 and dim
    double norm_eps;
    int64_t mode;  // TreeCompressMode
} TreeCompressArgs;

// Launches. `stream` is an aclrtStream; host builds ignore it and return when done. rows 0 does nothing.
DSV4_EXPORT int dsv4_tree_compress(const TreeCompressArgs* args, void* stream, char* error, size_t error_size);

#ifdef __cplusplus
}  // extern "C"
#endif
