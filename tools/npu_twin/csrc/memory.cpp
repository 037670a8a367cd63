#include "memory.h"

#include <c10/core/CPUAllocator.h>

#include <atomic>

namespace npu_twin {
namespace {

std::atomic<int64_t> held{0};
std::atomic<int64_t> peak{0};

struct Block {
    c10::DataPtr host;
    int64_t bytes;
};

void release(void* context) {
    auto* block = static_cast<Block*>(context);
    held -= block->bytes;
    delete block;
}

class NpuAllocator final : public c10::Allocator {
 public:
    c10::DataPtr allocate(size_t bytes) override {
        c10::DataPtr host = c10::GetCPUAllocator()->allocate(bytes);
        void* address = host.get();
        const int64_t now = (held += static_cast<int64_t>(bytes));
        int64_t seen = peak.load();
        while (now > seen && !peak.compare_exchange_weak(seen, now)) {
        }
        auto* block = new Block{std::move(host), static_cast<int64_t>(bytes)};
        return {address, block, &release, current_device()};
    }
    c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
    void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
};

NpuAllocator allocator;
REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &allocator);

}  // namespace

c10::Allocator* npu_allocator() { return &allocator; }
int64_t allocated_bytes() { return held.load(); }
int64_t peak_bytes() { return peak.load(); }
void reset_peak_bytes() { peak = held.load(); }

}  // namespace npu_twin
