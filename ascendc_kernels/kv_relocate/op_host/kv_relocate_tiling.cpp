#include "kv_relocate_tiling.h"

#include <algorithm>
#include <numeric>

#include "launch.h"

namespace dsv4::kv_relocate {

namespace {

constexpr int64_t kMaxDmaBlocks = 4095;
constexpr int64_t kMaxRows = INT32_MAX;
constexpr int64_t kMaxRowBytes = int64_t{1} << 30;
constexpr int64_t kMaxRuns = INT32_MAX;
constexpr int64_t kMaxCost = int64_t{1} << 56;  // of all jobs, so that its products with core numbers fit
constexpr int64_t kBytesPerRun = 512;           // cost of starting a DMA pair, as bytes
constexpr int64_t kBytesPerCore = 16384;        // less work does not pay for another core

int64_t ceil_div(int64_t value, int64_t unit) { return (value + unit - 1) / unit; }
int64_t round_up(int64_t value, int64_t unit) { return ceil_div(value, unit) * unit; }

bool addressable(int64_t rows, int64_t row_bytes) { return rows >= 0 && rows <= INT64_MAX / row_bytes; }

struct Shape {
    int64_t chunk = 0;  // bytes of a column chunk
    int64_t need = 0;   // UB bytes of a job
    int64_t jobs = 0;
    int64_t cost = 0;  // of a job
};

// One job with all columns in `room` bytes.
bool whole_rows(const KvRelocateBuffer& buffer, const KvRelocateSet& set, int64_t group, int64_t room, Shape& shape) {
    const int64_t run = round_up(set.max_rows * buffer.row_bytes, 32);
    if (run > room / group) return false;
    shape.chunk = buffer.row_bytes;
    shape.need = group * run;
    return true;
}

// One job with the widest chunk of columns, whole 32 B, of which all rows fit into `room` bytes.
bool columns(const KvRelocateSet& set, int64_t group, int64_t room, Shape& shape) {
    const int64_t rows = group * set.max_rows;
    shape.chunk = room / rows / 32 * 32;
    shape.need = rows * shape.chunk;
    return shape.chunk > 0 && set.max_rows <= kMaxDmaBlocks;
}

// Two jobs in UB at a time if possible, else one. False: a job does not fit.
bool shape_of(const KvRelocateBuffer& buffer, const KvRelocateSet& set, int64_t group, Shape& shape) {
    if (!whole_rows(buffer, set, group, kData / 2, shape) && !columns(set, group, kData / 2, shape) &&
        !whole_rows(buffer, set, group, kData, shape) && !columns(set, group, kData, shape)) {
        return false;
    }
    shape.jobs = ceil_div(set.runs, group) * ceil_div(buffer.row_bytes, shape.chunk);
    shape.cost = group * (set.max_rows * shape.chunk + kBytesPerRun);
    return true;
}

// Deals jobs in buffer order so that every block gets about the same cost.
void deal(const std::vector<Shape>& shapes, int64_t total_cost, int64_t blocks, int64_t* rows) {
    size_t buffer = 0;
    int64_t job = 0, dealt = 0;
    for (int64_t block = 0; block < blocks; ++block) {
        int64_t* row = rows + block * kPlanColumns;
        row[FIRST_BUFFER] = static_cast<int64_t>(buffer);
        row[FIRST_JOB] = job;
        // Rounded up, so the last block's share ends at the last job.
        const int64_t share_end = ceil_div(total_cost * (block + 1), blocks);
        while (buffer < shapes.size() && dealt < share_end) {
            const int64_t wanted = ceil_div(share_end - dealt, shapes[buffer].cost);
            const int64_t taken = std::min(wanted, shapes[buffer].jobs - job);
            row[JOBS] += taken;
            ++row[BUFFERS];
            dealt += taken * shapes[buffer].cost;
            job += taken;
            if (job == shapes[buffer].jobs) {
                ++buffer;
                job = 0;
            }
        }
    }
}

}  // namespace

int tile(const KvRelocateArgs& args, uint32_t cores, Tiling& tiling, char* error, size_t error_size) {
    if (args.set_count < 0 || args.set_count > kMaxSets) {
        return fail(DSV4_BAD_ARGUMENT, error, error_size,
                    "kv_relocate: %lld move sets, one launch takes %u; put the others into calls of their own",
                    (long long)args.set_count, kMaxSets);
    }
    for (int64_t s = 0; s < args.set_count; ++s) {
        const KvRelocateSet& set = args.sets[s];
        if (set.runs < 0 || set.runs > kMaxRuns || set.max_rows < 0 || set.max_rows > kMaxRows ||
            set.runs_per_job < 0) {
            return fail(DSV4_BAD_ARGUMENT, error, error_size,
                        "kv_relocate set %lld: runs %lld, max_rows %lld, runs_per_job %lld; at most %lld rows in a run "
                        "and %lld runs in a set",
                        (long long)s, (long long)set.runs, (long long)set.max_rows, (long long)set.runs_per_job,
                        (long long)kMaxRows, (long long)kMaxRuns);
        }
    }

    std::vector<int64_t> order;
    for (int64_t b = 0; b < args.buffer_count; ++b) {
        const KvRelocateBuffer& buffer = args.buffers[b];
        if (buffer.move_set < 0 || buffer.move_set >= args.set_count || buffer.row_bytes < 1 ||
            buffer.row_bytes > kMaxRowBytes || !addressable(buffer.src_rows, buffer.row_bytes) ||
            !addressable(buffer.dst_rows, buffer.row_bytes)) {
            return fail(DSV4_BAD_ARGUMENT, error, error_size,
                        "kv_relocate buffer %lld: move_set %lld, row_bytes %lld, %lld and %lld rows", (long long)b,
                        (long long)buffer.move_set, (long long)buffer.row_bytes, (long long)buffer.src_rows,
                        (long long)buffer.dst_rows);
        }
        const KvRelocateSet& set = args.sets[buffer.move_set];
        if (set.runs > 0 && set.max_rows > 0) order.push_back(b);
    }
    // Buffers of one set in a row: a core then reads the set's runs once.
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return args.buffers[a].move_set < args.buffers[b].move_set; });

    std::vector<Shape> shapes(order.size());
    std::vector<int64_t> rows;
    int64_t slot = 32, total_cost = 0, total_jobs = 0;
    for (size_t i = 0; i < order.size(); ++i) {
        const KvRelocateBuffer& buffer = args.buffers[order[i]];
        const KvRelocateSet& set = args.sets[buffer.move_set];
        const int64_t group = set.runs_per_job == 0 ? set.runs : std::min(set.runs_per_job, set.runs);
        if (group > kRunWindow || !shape_of(buffer, set, group, shapes[i])) {
            return fail(DSV4_BAD_ARGUMENT, error, error_size,
                        "kv_relocate buffer %lld: %lld runs of up to %lld rows do not fit one job (%u runs, %u bytes); "
                        "set runs_per_job to the runs of one request",
                        (long long)order[i], (long long)group, (long long)set.max_rows, kRunWindow, kData);
        }
        slot = std::max(slot, shapes[i].need);
        if (shapes[i].jobs > (kMaxCost - total_cost) / shapes[i].cost) {
            return fail(DSV4_BAD_ARGUMENT, error, error_size,
                        "kv_relocate buffer %lld: more work than one launch takes", (long long)order[i]);
        }
        total_cost += shapes[i].cost * shapes[i].jobs;
        total_jobs += shapes[i].jobs;
        rows.insert(rows.end(), {static_cast<int64_t>(buffer.src), static_cast<int64_t>(buffer.dst), buffer.row_bytes,
                                 shapes[i].chunk, buffer.move_set, set.runs, group, set.max_rows});
    }
    const int64_t blocks =
        std::min<int64_t>({static_cast<int64_t>(cores), total_jobs, ceil_div(total_cost, kBytesPerCore)});
    tiling.blocks = static_cast<uint32_t>(blocks);
    tiling.slot_bytes = static_cast<uint32_t>(round_up(slot, 32));
    tiling.slots = std::min(kMaxSlots, kData / tiling.slot_bytes);
    tiling.plan.assign(static_cast<size_t>(blocks) * kPlanColumns, 0);
    if (blocks > 0) deal(shapes, total_cost, blocks, tiling.plan.data());
    tiling.plan.insert(tiling.plan.end(), rows.begin(), rows.end());
    return DSV4_OK;
}

}  // namespace dsv4::kv_relocate
