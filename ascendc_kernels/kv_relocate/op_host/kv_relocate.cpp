#include "kv_relocate.h"

#include <cstring>
#include <vector>

#include "kv_relocate_tiling.h"
#include "launch.h"

#if defined(DSV4_NPU)
#include "aclrtlaunch_kv_relocate.h"
#else
extern "C" void kv_relocate(dsv4::GmAddress plan, dsv4::GmAddress src0, dsv4::GmAddress dst0, dsv4::GmAddress rows0,
                            dsv4::GmAddress src1, dsv4::GmAddress dst1, dsv4::GmAddress rows1, dsv4::GmAddress src2,
                            dsv4::GmAddress dst2, dsv4::GmAddress rows2, dsv4::GmAddress src3, dsv4::GmAddress dst3,
                            dsv4::GmAddress rows3, dsv4::GmAddress src4, dsv4::GmAddress dst4, dsv4::GmAddress rows4,
                            dsv4::GmAddress src5, dsv4::GmAddress dst5, dsv4::GmAddress rows5, uint32_t buffers,
                            uint32_t slots, uint32_t slot_bytes);
#endif

using namespace dsv4::kv_relocate;

extern "C" int dsv4_kv_relocate_plan(const KvRelocateArgs* args, int64_t* plan, int64_t capacity, int64_t* size,
                                     char* error, size_t error_size) {
    Tiling tiling;
    if (int status = tile(*args, dsv4::aiv_cores(), tiling, error, error_size)) return status;
    *size = static_cast<int64_t>(tiling.plan.size());
    if (plan == nullptr) return DSV4_OK;
    if (capacity < *size) {
        return dsv4::fail(DSV4_BAD_ARGUMENT, error, error_size, "kv_relocate plan has %lld int64, room for %lld",
                          (long long)*size, (long long)capacity);
    }
    std::memcpy(plan, tiling.plan.data(), tiling.plan.size() * sizeof(int64_t));
    return DSV4_OK;
}

extern "C" int dsv4_kv_relocate(const KvRelocateArgs* args, void* stream, char* error, size_t error_size) {
    Tiling tiling;
    if (int status = tile(*args, dsv4::aiv_cores(), tiling, error, error_size)) return status;
    if (tiling.blocks == 0) return DSV4_OK;
    for (int64_t s = 0; s < args->set_count; ++s) {
        const KvRelocateSet& set = args->sets[s];
        if (set.runs > 0 && (set.src == nullptr || set.dst == nullptr || set.rows == nullptr)) {
            return dsv4::fail(DSV4_BAD_ARGUMENT, error, error_size, "kv_relocate set %lld: no address for %lld runs",
                              (long long)s, (long long)set.runs);
        }
    }
#if DSV4_HOST_CHECK
    if (int status = validate(*args, error, error_size)) return status;
#endif
    dsv4::Launch launch("kv_relocate", tiling.blocks, stream);
    std::vector<KvRelocateBuffer> mapped(args->buffers, args->buffers + args->buffer_count);
    for (KvRelocateBuffer& buffer : mapped) {
        const auto* src = reinterpret_cast<const void*>(buffer.src);
        auto* dst = reinterpret_cast<void*>(buffer.dst);
        buffer.src = reinterpret_cast<uint64_t>(launch.input(src, buffer.src_rows * buffer.row_bytes, "source"));
        buffer.dst = reinterpret_cast<uint64_t>(launch.inout(dst, buffer.dst_rows * buffer.row_bytes, "destination"));
    }
    const int64_t* plan = args->plan;
    const auto plan_size = tiling.plan.size();
#if defined(DSV4_NPU)
    if (plan == nullptr) {
        return dsv4::fail(DSV4_BAD_ARGUMENT, error, error_size, "kv_relocate needs a plan in device memory");
    }
#else
    if (plan == nullptr) {
        // Addresses are those that the launch gives to the kernel.
        KvRelocateArgs there = *args;
        there.buffers = mapped.data();
        if (int status = tile(there, dsv4::aiv_cores(), tiling, error, error_size)) return status;
        plan = tiling.plan.data();
    }
#endif
    const auto buffers = static_cast<uint32_t>(plan_size / kPlanColumns - tiling.blocks);
    auto* plan_gm = launch.input(plan, plan_size * sizeof(int64_t), "plan");
    static_assert(kMaxSets == 6, "the kernel has 18 parameters for runs");
    dsv4::GmAddress runs[kMaxSets][kRunColumns] = {};
    for (int64_t s = 0; s < args->set_count; ++s) {
        const KvRelocateSet& set = args->sets[s];
        const uint64_t bytes = set.runs * sizeof(int64_t);
        if (bytes == 0) continue;
        runs[s][RUN_SRC] = launch.input(set.src, bytes, "source rows");
        runs[s][RUN_DST] = launch.input(set.dst, bytes, "destination rows");
        runs[s][RUN_ROWS] = launch.input(set.rows, bytes, "rows of runs");
    }
    return DSV4_LAUNCH(launch, kv_relocate, error, error_size, plan_gm, runs[0][0], runs[0][1], runs[0][2], runs[1][0],
                       runs[1][1], runs[1][2], runs[2][0], runs[2][1], runs[2][2], runs[3][0], runs[3][1], runs[3][2],
                       runs[4][0], runs[4][1], runs[4][2], runs[5][0], runs[5][1], runs[5][2], buffers, tiling.slots,
                       tiling.slot_bytes);
}
