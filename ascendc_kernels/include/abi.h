// The C ABI that every build of the kernel library exports: status codes, launch counters, host-build settings.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DSV4_EXPORT __attribute__((visibility("default")))

// Returned by every dsv4_<op>() entry. The reason of a non-zero status is in the caller's error buffer.
enum Dsv4Status {
    DSV4_OK = 0,
    DSV4_BAD_ARGUMENT = 1,   // refused before the launch; nothing was written
    DSV4_HAZARD = 2,         // a host build saw a rule broken; only the fast one may have written to outputs
    DSV4_LAUNCH_FAILED = 3,  // the device runtime refused the launch
};

// What one launch did, summed over its cores. All zero in builds that do not count (host-fast, npu, cann-cpu).
typedef struct dsv4_counters {
    uint64_t blocks;               // cores that ran
    uint64_t dma_in_instructions;  // GM -> UB
    uint64_t dma_in_bytes;         // bytes read from GM by DMA
    uint64_t dma_out_instructions;
    uint64_t dma_out_bytes;
    uint64_t scalar_gm_reads;  // GlobalTensor::GetValue calls
    uint64_t scalar_gm_writes;
    uint64_t scalar_ub_reads;  // LocalTensor::GetValue calls
    uint64_t scalar_ub_writes;
    uint64_t vector_instructions;  // API calls on the vector pipe
    uint64_t vector_repeats;       // 256-byte repeats of those calls
    uint64_t sync_all;             // SyncAll calls of one core
    uint64_t peak_ub_bytes;        // largest sum of InitBuffer lengths on one core
} dsv4_counters;

// Counters of the last launch of the calling thread.
DSV4_EXPORT int dsv4_counters_last(dsv4_counters* out);

// Host builds. mode: "strict", "autosync" or null (keep). cores: vector cores to pretend, 1..48, or 0 (keep).
// seed: order in which concurrent cores advance. Process-wide; initial values come from DSV4_HOST_MODE,
// DSV4_HOST_CORES, DSV4_HOST_SEED. Returns DSV4_BAD_ARGUMENT for another mode or count.
DSV4_EXPORT int dsv4_host_configure(const char* mode, int32_t cores, uint64_t seed);

// "host-check", "host-fast", "npu" or "cann-cpu".
DSV4_EXPORT const char* dsv4_build(void);

#ifdef __cplusplus
}  // extern "C"
#endif
