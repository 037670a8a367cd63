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
    int64_t buffer;
};

using Intervals = std::vector<Interval>;

void sort_by_begin(Intervals& intervals) {
    std::sort(intervals.begin(), intervals.end(),
              [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
}

// The second of the first pair of neighbours that overlap, or null.
const Interval* overlapping_neighbour(const Intervals& sorted) {
    for (size_t i = 1; i < sorted.size(); ++i) {
        if (sorted[i].begin < sorted[i - 1].end) return &sorted[i];
    }
    return nullptr;
}

// The first of `destinations`, sorted and apart from each other, that overlaps `source` and for which `bad` holds.
template <typename Bad>
const Interval* overwritten(const Interval& source, const Intervals& destinations, Bad bad) {
    auto hit = std::upper_bound(destinations.begin(), destinations.end(), source.begin,
                                [](uint64_t begin, const Interval& d) { return begin < d.end; });
    for (; hit != destinations.end() && hit->begin < source.end; ++hit) {
        if (bad(*hit)) return &*hit;
    }
    return nullptr;
}

// Bounds of the live runs of buffer b, and what they read and write.
int collect(const KvRelocateArgs& args, int64_t b, Intervals& sources, Intervals& destinations, char* error,
            size_t error_size) {
    const KvRelocateBuffer& buffer = args.buffers[b];
    const KvRelocateSet& set = args.sets[buffer.move_set];
    for (int64_t r = 0; r < set.runs; ++r) {
        const int64_t src = set.src[r], dst = set.dst[r], rows = set.rows[r];
        if (rows == 0) continue;
        if (rows < 0 || rows > set.max_rows || src < 0 || src > buffer.src_rows - rows || dst < 0 ||
            dst > buffer.dst_rows - rows) {
            return fail(DSV4_BAD_ARGUMENT, error, error_size,
                        "kv_relocate buffer %lld, run %lld: %lld rows from %lld to %lld, where max_rows is %lld and "
                        "the tensors have %lld and %lld rows",
                        (long long)b, (long long)r, (long long)rows, (long long)src, (long long)dst,
                        (long long)set.max_rows, (long long)buffer.src_rows, (long long)buffer.dst_rows);
        }
        const auto bytes = static_cast<uint64_t>(buffer.row_bytes);
        sources.push_back({buffer.src + src * bytes, buffer.src + (src + rows) * bytes, r, b});
        destinations.push_back({buffer.dst + dst * bytes, buffer.dst + (dst + rows) * bytes, r, b});
    }
    return DSV4_OK;
}

// Inside one buffer pair: no row is written twice, and no job reads what another job writes.
int within(const KvRelocateSet& set, const Intervals& sources, const Intervals& destinations, char* error,
           size_t error_size) {
    if (const Interval* twice = overlapping_neighbour(destinations)) {
        return fail(DSV4_BAD_ARGUMENT, error, error_size,
                    "kv_relocate buffer %lld: run %lld writes a destination row of another run",
                    (long long)twice->buffer, (long long)twice->run);
    }
    const int64_t group = set.runs_per_job == 0 ? std::max<int64_t>(set.runs, 1) : set.runs_per_job;
    for (const Interval& source : sources) {
        const auto another_job = [&](const Interval& d) { return d.run / group != source.run / group; };
        if (const Interval* hit = overwritten(source, destinations, another_job)) {
            return fail(DSV4_BAD_ARGUMENT, error, error_size,
                        "kv_relocate buffer %lld: run %lld reads rows that run %lld of another job writes; raise "
                        "runs_per_job (%lld)",
                        (long long)source.buffer, (long long)source.run, (long long)hit->run,
                        (long long)set.runs_per_job);
        }
    }
    return DSV4_OK;
}

// Pairs move in no order, whatever the jobs: what one writes, no other may read or write.
int between(const Intervals& sources, const Intervals& destinations, char* error, size_t error_size) {
    if (const Interval* twice = overlapping_neighbour(destinations)) {
        return fail(DSV4_BAD_ARGUMENT, error, error_size,
                    "kv_relocate buffer %lld, run %lld and buffer %lld, run %lld write the same bytes; buffer pairs "
                    "move in no order: put these runs into calls of their own",
                    (long long)(twice - 1)->buffer, (long long)(twice - 1)->run, (long long)twice->buffer,
                    (long long)twice->run);
    }
    for (const Interval& source : sources) {
        const auto another_pair = [&](const Interval& d) { return d.buffer != source.buffer; };
        if (const Interval* hit = overwritten(source, destinations, another_pair)) {
            return fail(DSV4_BAD_ARGUMENT, error, error_size,
                        "kv_relocate buffer %lld, run %lld reads bytes that buffer %lld, run %lld writes; buffer pairs "
                        "move in no order: put these runs into calls of their own",
                        (long long)source.buffer, (long long)source.run, (long long)hit->buffer, (long long)hit->run);
        }
    }
    return DSV4_OK;
}

}  // namespace

int validate(const KvRelocateArgs& args, char* error, size_t error_size) {
    Intervals all_sources, all_destinations;
    for (int64_t b = 0; b < args.buffer_count; ++b) {
        const int64_t move_set = args.buffers[b].move_set;
        Intervals sources, destinations;
        if (int status = collect(args, b, sources, destinations, error, error_size)) return status;
        sort_by_begin(destinations);
        if (int status = within(args.sets[move_set], sources, destinations, error, error_size)) return status;
        all_sources.insert(all_sources.end(), sources.begin(), sources.end());
        all_destinations.insert(all_destinations.end(), destinations.begin(), destinations.end());
    }
    sort_by_begin(all_destinations);
    return between(all_sources, all_destinations, error, error_size);
}

}  // namespace dsv4::kv_relocate
