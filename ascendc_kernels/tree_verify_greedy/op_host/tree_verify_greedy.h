// C ABI of tree_verify_greedy: the longest path of tokens that are the target's argmax.
#pragma once

#include "abi.h"

#ifdef __cplusplus
extern "C" {
#endif

// Device addresses of contiguous tensors of int32 or int64, bs requests of n nodes. See the README for meanings.
typedef struct TreeVerifyGreedyArgs {
    void* predicts;          // [bs, n], written at accepted nodes
    void* accept_index;      // [bs, columns], written up to the last accepted node
    void* accept_token_num;  // [bs]
    const void* candidates;  // [bs, n]
    const void* retrieve_index;
    const void* retrieve_next_token;
    const void* retrieve_next_sibling;
    const void* target_predict;
    int64_t element_bytes[8];  // of each tensor above, 4 or 8
    int64_t bs;                // 0..1024
    int64_t n;                 // 1..64
    int64_t columns;           // 1..1024, the root's included
} TreeVerifyGreedyArgs;

// Launches. `stream` is an aclrtStream; host builds ignore it and return when done. bs 0 does nothing.
DSV4_EXPORT int dsv4_tree_verify_greedy(const TreeVerifyGreedyArgs* args, void* stream, char* error, size_t error_size);

#ifdef __cplusplus
}  // extern "C"
#endif
