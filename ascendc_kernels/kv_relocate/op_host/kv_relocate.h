// C ABI of kv_relocate: every row move of a round in one launch.
#pragma once

#include "abi.h"

#ifdef __cplusplus
extern "C" {
#endif

// One pair of buffers; rows are contiguous. A pair may be one tensor. Pairs move in no order: rows that one pair
// writes, no other pair may read or write.
typedef struct KvRelocateBuffer {
    uint64_t src;  // device address of row 0
    uint64_t dst;
    int64_t src_rows;  // rows of the tensor, for bounds checks
    int64_t dst_rows;
    int64_t row_bytes;
    int64_t move_set;  // index into sets
} KvRelocateBuffer;

// Runs that every buffer of the set shares. Run r copies rows[r] rows from row src[r] to row dst[r]; 0 rows mask it.
typedef struct KvRelocateSet {
    const int64_t* src;  // device memory, [runs] each; not needed for a plan
    const int64_t* dst;
    const int64_t* rows;
    int64_t runs;
    int64_t max_rows;  // bounds every run's rows
    // Consecutive runs that are gathered together before any of them is stored. 0: all runs of the set. A smaller
    // number promises that no run reads a row that a run of another group writes; such groups run concurrently.
    int64_t runs_per_job;
} KvRelocateSet;

typedef struct KvRelocateArgs {
    const KvRelocateBuffer* buffers;  // host memory
    int64_t buffer_count;
    const KvRelocateSet* sets;  // host memory
    int64_t set_count;          // at most 6
    const int64_t* plan;  // device memory: what dsv4_kv_relocate_plan wrote. Host builds accept null and plan per call.
} KvRelocateArgs;

// Launches. `stream` is an aclrtStream; host builds ignore it and return when done. bs 0 (no runs) does nothing.
DSV4_EXPORT int dsv4_kv_relocate(const KvRelocateArgs* args, void* stream, char* error, size_t error_size);

// Writes the plan of these buffers and sets into host memory of `capacity` int64 and its size into `size`; null `plan`
// asks for the size. A plan holds neither values nor addresses of runs: it stays valid while addresses and widths of
// the buffers, the sets' run counts, max_rows and runs_per_job stay.
DSV4_EXPORT int dsv4_kv_relocate_plan(const KvRelocateArgs* args, int64_t* plan, int64_t capacity, int64_t* size,
                                      char* error, size_t error_size);

#ifdef __cplusplus
}  // extern "C"
#endif
