#include "kv_relocate.h"

#include <cstring>
#include <vector>

#include "kv_relocate_tiling.h"
#include "launch.h"

#if defined(DSV4_NPU)
#include "aclrtlaunch_kv_relocate.h"
#else
extern "C" void kv_relocate(dsv4::GmAddress plan, dsv4::GmAddress runs, uint32_t buffers, uint32_t run_count,
                            uint32_t slots, uint32_t slot_bytes);
#endif

using dsv4::kv_relocate::kPlanColumns;
using dsv4::kv_relocate::Tiling;

extern "C" int dsv4_kv_relocate_plan(const KvRelocateArgs* args, int64_t* plan, int64_t capacity, int64_t* size,
                                     char* error, size_t error_size) {
    Tiling tiling;
    if (int status = dsv4::kv_relocate::tile(*args, dsv4::aiv_cores(), tiling, error, error_size)) return status;
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
    if (int status = dsv4::kv_relocate::tile(*args, dsv4::aiv_cores(), tiling, error, error_size)) return status;
    if (tiling.blocks == 0) return DSV4_OK;
#if DSV4_HOST_CHECK
    if (int status = dsv4::kv_relocate::validate(*args, error, error_size)) return status;
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
        if (int status = dsv4::kv_relocate::tile(there, dsv4::aiv_cores(), tiling, error, error_size)) return status;
        plan = tiling.plan.data();
    }
#endif
    const auto buffers = static_cast<uint32_t>(plan_size / kPlanColumns - tiling.blocks);
    const auto run_count = static_cast<uint32_t>(args->run_count);
    auto* plan_gm = launch.input(plan, plan_size * sizeof(int64_t), "plan");
    auto* runs_gm = launch.input(args->runs, 3 * args->run_count * sizeof(int64_t), "runs");
    return DSV4_LAUNCH(launch, kv_relocate, error, error_size, plan_gm, runs_gm, buffers, run_count, tiling.slots,
                       tiling.slot_bytes);
}
