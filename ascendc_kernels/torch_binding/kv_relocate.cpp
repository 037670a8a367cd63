// torch.ops.dsv4_tree_npu.kv_relocate: what torch.ops.dsv4_tree.kv_relocate runs for npu tensors. Dtypes and widths are
// checked by ops/kv_relocate.py.
#include "../kv_relocate/op_host/kv_relocate.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <list>
#include <mutex>
#include <vector>

#include "launch.h"
#include "torch_npu/csrc/core/npu/NPUGraphsUtils.h"

namespace dsv4::torch_binding {

namespace {

struct KvRelocateWork {
    std::vector<KvRelocateBuffer> buffers;
    std::vector<KvRelocateSet> sets;
    std::vector<at::Tensor> alive;  // what the buffers and the sets point to
    at::Tensor plan;

    KvRelocateArgs args() const {
        KvRelocateArgs args{};
        args.buffers = buffers.data();
        args.buffer_count = static_cast<int64_t>(buffers.size());
        args.sets = sets.data();
        args.set_count = static_cast<int64_t>(sets.size());
        args.plan = plan.defined() ? plan.data_ptr<int64_t>() : nullptr;
        return args;
    }
};

// Plans in device memory by everything that they depend on, most recently used first. That is no run: runs have new
// values and addresses in each call. Buffers that are allocated anew each round bring new plans, so all but kKept go. A
// captured graph keeps the address of its plan: such a plan stays, so their number is that of the address sets that
// graphs were captured with.
class Plans {
 public:
    at::Tensor plan_of(const KvRelocateWork& work, const at::Device& device) {
        using c10_npu::CaptureStatus;
        const bool capturing = c10_npu::currentStreamCaptureStatusMayInitCtx() != CaptureStatus::None;
        std::vector<int64_t> key = key_of(work, device);
        const std::lock_guard<std::mutex> guard(mutex_);
        auto known = std::find_if(plans_.begin(), plans_.end(), [&](const Plan& plan) { return plan.key == key; });
        if (known == plans_.end()) {
            TORCH_CHECK(!capturing,
                        "kv_relocate meets these tensors for the first time while a graph is captured; "
                        "call it once with them before the capture");
            plans_.push_front({std::move(key), upload(work, device), false});
        } else {
            plans_.splice(plans_.begin(), plans_, known);
        }
        Plan& plan = plans_.front();
        plan.captured |= capturing;
        drop_oldest();
        return plan.tensor;
    }

 private:
    static constexpr std::ptrdiff_t kKept = 256;

    struct Plan {
        std::vector<int64_t> key;
        at::Tensor tensor;
        bool captured;
    };

    // One call adds at most one plan; the one in use is the first and kKept > 0.
    void drop_oldest() {
        const auto replaceable = [](const Plan& plan) { return !plan.captured; };
        if (std::count_if(plans_.begin(), plans_.end(), replaceable) <= kKept) return;
        const auto oldest = std::find_if(plans_.rbegin(), plans_.rend(), replaceable);
        plans_.erase(std::prev(oldest.base()));
    }

    static std::vector<int64_t> key_of(const KvRelocateWork& work, const at::Device& device) {
        std::vector<int64_t> key{device.index(), static_cast<int64_t>(work.sets.size())};
        for (const KvRelocateSet& set : work.sets) key.insert(key.end(), {set.runs, set.max_rows, set.runs_per_job});
        for (const KvRelocateBuffer& b : work.buffers) {
            key.insert(key.end(), {static_cast<int64_t>(b.src), static_cast<int64_t>(b.dst), b.src_rows, b.dst_rows,
                                   b.row_bytes, b.move_set});
        }
        return key;
    }

    // A copy from host memory, which no graph can capture.
    static at::Tensor upload(const KvRelocateWork& work, const at::Device& device) {
        std::array<char, 512> error{};
        const KvRelocateArgs args = work.args();
        int64_t size = 0;
        int status = dsv4_kv_relocate_plan(&args, nullptr, 0, &size, error.data(), error.size());
        at::Tensor plan = at::empty({size}, at::TensorOptions().dtype(at::kLong));
        if (status == DSV4_OK) {
            status = dsv4_kv_relocate_plan(&args, plan.data_ptr<int64_t>(), size, &size, error.data(), error.size());
        }
        TORCH_CHECK_VALUE(status == DSV4_OK, error.data());
        return plan.to(device);
    }

    std::mutex mutex_;
    std::list<Plan> plans_;
};

void kv_relocate(at::TensorList src_buffers, at::TensorList dst_buffers, at::IntArrayRef move_set, at::TensorList src,
                 at::TensorList dst, at::TensorList rows, at::IntArrayRef max_rows, at::IntArrayRef runs_per_job) {
    static Plans plans;
    auto work = std::make_shared<KvRelocateWork>();
    for (size_t i = 0; i < src_buffers.size(); ++i) {
        const at::Tensor &from = src_buffers[i], &to = dst_buffers[i];
        TORCH_CHECK_VALUE(from.is_contiguous() && to.is_contiguous(), "kv_relocate buffer ", i,
                          " is not contiguous; pass a contiguous [rows, width] view");
        work->buffers.push_back({reinterpret_cast<uint64_t>(data(from)), reinterpret_cast<uint64_t>(data(to)),
                                 from.size(0), to.size(0), from.size(1) * from.element_size(), move_set[i]});
        work->alive.insert(work->alive.end(), {from, to});
    }
    // Runs are read where they are; only a tensor with gaps costs a copy.
    const auto column = [&](const at::Tensor& given) {
        work->alive.push_back(given.contiguous());
        return work->alive.back().data_ptr<int64_t>();
    };
    int64_t runs = 0;
    for (size_t i = 0; i < src.size(); ++i) {
        const int64_t *from = column(src[i]), *to = column(dst[i]), *count = column(rows[i]);
        work->sets.push_back({from, to, count, src[i].numel(), max_rows[i], runs_per_job[i]});
        runs += src[i].numel();
    }
    if (runs == 0 || work->buffers.empty()) return;
    work->plan = plans.plan_of(*work, src_buffers[0].device());
    launch("dsv4_kv_relocate", dsv4_kv_relocate, work);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(dsv4_tree_npu, m) {
    m.def(
        "kv_relocate(Tensor[] src_buffers, Tensor(a!)[] dst_buffers, int[] move_set, Tensor[] src, Tensor[] "
        "dst, Tensor[] rows, int[] max_rows, int[] runs_per_job) -> ()");
}

TORCH_LIBRARY_IMPL(dsv4_tree_npu, PrivateUse1, m) { m.impl("kv_relocate", &kv_relocate); }

}  // namespace dsv4::torch_binding
