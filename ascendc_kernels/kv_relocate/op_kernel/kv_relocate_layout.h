// What host and kernel of kv_relocate agree on. Sizes in bytes unless named otherwise.
#pragma once

#include <cstdint>

namespace dsv4::kv_relocate {

// Move sets of a launch. Their runs change from call to call and the plan does not, so the addresses of the runs are
// launch arguments, kRunColumns for each set.
constexpr uint32_t kMaxSets = 6;
enum RunColumn : uint32_t { RUN_SRC, RUN_DST, RUN_ROWS, kRunColumns };

constexpr uint32_t kPlanColumns = 8;  // int64 per plan row: 64 B

// Columns of a block's row: JOBS jobs in buffer order from FIRST_JOB of FIRST_BUFFER, spread over BUFFERS buffers.
enum BlockColumn : uint32_t { FIRST_BUFFER, FIRST_JOB, JOBS, BUFFERS };

// Columns of a buffer's row. A job is one group of runs by one chunk of columns; group-major.
enum BufferColumn : uint32_t { SRC, DST, ROW_BYTES, CHUNK_BYTES, MOVE_SET, RUNS, RUNS_PER_JOB, MAX_ROWS };

constexpr uint32_t kRunWindow = 640;    // runs in UB at a time
constexpr uint32_t kBufferWindow = 32;  // buffer rows in UB at a time
constexpr uint32_t kTables = kPlanColumns * 8 * (1 + kBufferWindow) + kRunColumns * 8 * kRunWindow;
constexpr uint32_t kData = (188160 - kTables) / 512 * 512;  // of UB, for rows in flight
constexpr uint32_t kMaxSlots = 8;

}  // namespace dsv4::kv_relocate
