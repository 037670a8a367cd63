// Checks of run values, for builds where the host can read them.
#include <algorithm>

#include "kv_relocate_tiling.h"
#include "launch.h"

namespace dsv4::kv_relocate {

namespace {

struct Interval {
    uint64_t begin;
    uint64_t end;
    int64_t run;
};

// Sorted by begin; the first overlapping pair, or null.
const Interval* overlapping_neighbour(const std::vector<Interval>& sorted) {
    for (size_t i = 1; i < sorted.size(); ++i) {
        if (sorted[i].begin < sorted[i - 1].end) return &sorted[i];
    }
    return nullptr;
}

void sort_by_begin(std::vector<Interval>& intervals) {
    std::sort(intervals.begin(), intervals.end(),
              [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
}

}  // namespace

int validate(const KvRelocateArgs& args, char* error, size_t error_size) {
    int64_t first = 0;
    std::vector<int64_t> first_run;
    for (int64_t s = 0; s < args.set_count; ++s) {
        first_run.push_back(first);
        first += args.sets[s].runs;
    }
    for (int64_t b = 0; b < args.buffer_count; ++b) {
        const KvRelocateBuffer& buffer = args.buffers[b];
        const KvRelocateSet& set = args.sets[buffer.move_set];
        const int64_t group = set.runs_per_job == 0 ? std::max<int64_t>(set.runs, 1) : set.runs_per_job;
        std::vector<Interval> sources, destinations;
        for (int64_t r = 0; r < set.runs; ++r) {
            const int64_t* column = args.runs + first_run[buffer.move_set] + r;
            const int64_t src = column[0], dst = column[args.run_count], rows = column[2 * args.run_count];
            if (rows == 0) continue;
            if (rows < 0 || rows > set.max_rows || src < 0 || src > buffer.src_rows - rows || dst < 0 ||
                dst > buffer.dst_rows - rows) {
                return fail(
                    DSV4_BAD_ARGUMENT, error, error_size,
                    "kv_relocate buffer %lld, run %lld: %lld rows from %lld to %lld, where max_rows is %lld and "
                    "the tensors have %lld and %lld rows",
                    (long long)b, (long long)r, (long long)rows, (long long)src, (long long)dst,
                    (long long)set.max_rows, (long long)buffer.src_rows, (long long)buffer.dst_rows);
            }
            const auto bytes = static_cast<uint64_t>(buffer.row_bytes);
            sources.push_back({buffer.src + src * bytes, buffer.src + (src + rows) * bytes, r});
            destinations.push_back({buffer.dst + dst * bytes, buffer.dst + (dst + rows) * bytes, r});
        }
        sort_by_begin(destinations);
        if (const Interval* twice = overlapping_neighbour(destinations)) {
            return fail(DSV4_BAD_ARGUMENT, error, error_size,
                        "kv_relocate buffer %lld: run %lld writes a destination row of another run", (long long)b,
                        (long long)twice->run);
        }
        for (const Interval& source : sources) {
            auto hit = std::upper_bound(destinations.begin(), destinations.end(), source.begin,
                                        [](uint64_t begin, const Interval& d) { return begin < d.end; });
            for (; hit != destinations.end() && hit->begin < source.end; ++hit) {
                if (hit->run / group == source.run / group) continue;
                return fail(DSV4_BAD_ARGUMENT, error, error_size,
                            "kv_relocate buffer %lld: run %lld reads rows that run %lld of another job writes; raise "
                            "runs_per_job (%lld)",
                            (long long)b, (long long)source.run, (long long)hit->run, (long long)set.runs_per_job);
            }
        }
    }
    return DSV4_OK;
}

}  // namespace dsv4::kv_relocate
