// C ABI of tree_build: from the draft's candidate pool to the topology of one verify round.
#pragma once

#include "abi.h"

#ifdef __cplusplus
extern "C" {
#endif

// Device addresses of contiguous tensors, shapes with bs requests, n nodes, B branches. See the README for meanings.
typedef struct TreeBuildArgs {
    const void* parent_list;    // int32 or int64 [bs, topk*(steps-1)+1]; not read if steps is 1
    const void* selected;       // int32 or int64 [bs, n-1]
    const float* scores;        // [bs, n-1]
    const void* seq_lens;       // int32 or int64 [bs]
    int64_t* positions;         // [bs, n]
    int64_t* retrieve_index;    // [bs, n]
    int64_t* next_token;        // [bs, n]
    int64_t* next_sibling;      // [bs, n]
    int32_t* parent;            // [bs, n]
    int32_t* depth;             // [bs, n]
    int64_t* ancestors;         // [bs, n]
    int32_t* branch_table;      // [bs, B, steps+1]
    int32_t* home_branch;       // [bs, n]
    void* mask;                 // null with mask_mode -1
    int64_t mask_bytes;         // size of mask
    int64_t mask_mode;          // -1 none, 0 FULL_MASK, 1 QLEN_ONLY, 2 QLEN_ONLY_BITPACKING
    int64_t parent_list_bytes;  // of an element: 4 or 8
    int64_t selected_bytes;
    int64_t seq_lens_bytes;
    int64_t bs;            // 0..1024
    int64_t topk;          // 1..16
    int64_t steps;         // 1..16
    int64_t n;             // 2..64
    int64_t max_branches;  // 1..64
} TreeBuildArgs;

// Launches. `stream` is an aclrtStream; host builds ignore it and return when done. bs 0 does nothing.
DSV4_EXPORT int dsv4_tree_build(const TreeBuildArgs* args, void* stream, char* error, size_t error_size);

#ifdef __cplusplus
}  // extern "C"
#endif
