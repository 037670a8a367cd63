// Devices, streams and events. They exist as numbers only: work is done when a call returns.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "memory.h"

namespace npu_twin {
namespace {

thread_local c10::DeviceIndex current_index = 0;
thread_local c10::StreamId current_stream = 0;

c10::Stream stream_of(c10::StreamId id) { return c10::Stream(c10::Stream::UNSAFE, current_device(), id); }

c10::DeviceIndex exchange_index(c10::DeviceIndex index) {
    const auto before = current_index;
    set_current_device(index);
    return before;
}

}  // namespace

c10::Device current_device() { return c10::Device(c10::DeviceType::PrivateUse1, current_index); }

void set_current_device(c10::DeviceIndex index) {
    if (index >= 0) {
        TORCH_CHECK(index < device_count(), "npu twin: device ", int(index), " of ", int(device_count()));
        current_index = index;
    }
}

c10::DeviceIndex device_count() {
    static const auto count = [] {
        const char* asked = std::getenv("NPU_TWIN_DEVICES");
        return static_cast<c10::DeviceIndex>(asked == nullptr ? 1 : std::max(1, std::atoi(asked)));
    }();
    return count;
}

namespace {

struct Guard final : public c10::impl::DeviceGuardImplInterface {
    static constexpr c10::DeviceType static_type = c10::DeviceType::PrivateUse1;

    c10::DeviceType type() const override { return static_type; }
    c10::Device exchangeDevice(c10::Device device) const override {
        return c10::Device(static_type, exchange_index(device.index()));
    }
    c10::Device getDevice() const override { return current_device(); }
    void setDevice(c10::Device device) const override { set_current_device(device.index()); }
    void uncheckedSetDevice(c10::Device device) const noexcept override {
        if (device.index() >= 0) {
            current_index = device.index();
        }
    }
    c10::DeviceIndex deviceCount() const noexcept override { return device_count(); }
    c10::Stream getStream(c10::Device) const override { return stream_of(current_stream); }
    c10::Stream getDefaultStream(c10::Device) const override { return stream_of(0); }
    c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override { return stream_of(1); }
    c10::Stream getNewStream(c10::Device, int) const override {
        static std::atomic<c10::StreamId> next{2};
        return stream_of(next++);
    }
    c10::Stream exchangeStream(c10::Stream stream) const override {
        const auto before = current_stream;
        current_stream = stream.id();
        return stream_of(before);
    }
    void record(void** event, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {
        static int token;
        *event = &token;
    }
    void block(void*, const c10::Stream&) const override {}
    bool queryEvent(void*) const override { return true; }
    void destroyEvent(void*, const c10::DeviceIndex) const noexcept override {}
    bool queryStream(const c10::Stream&) const override { return true; }
    void synchronizeStream(const c10::Stream&) const override {}
    void synchronizeEvent(void*) const override {}
    void synchronizeDevice(const c10::DeviceIndex) const override {}
    void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}
    double elapsedTime(void*, void*, const c10::DeviceIndex) const override { return 0.0; }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct Hooks final : public at::PrivateUse1HooksInterface {
    void init() const override {}
    bool isBuilt() const override { return true; }
    bool isAvailable() const override { return true; }
    bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
    const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
        return at::detail::getDefaultCPUGenerator();
    }
    at::Generator getNewGenerator(c10::DeviceIndex) const override { return at::detail::createCPUGenerator(); }
    c10::Device getDeviceFromPtr(void*) const override { return current_device(); }
    bool isPinnedPtr(const void*) const override { return false; }
    c10::Allocator* getPinnedMemoryAllocator() const override { return c10::GetCPUAllocator(); }
    c10::DeviceIndex deviceCount() const override { return device_count(); }
    void setCurrentDevice(c10::DeviceIndex index) const override { set_current_device(index); }
    c10::DeviceIndex getCurrentDevice() const override { return current_index; }
    c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override { return exchange_index(index); }
    c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override { return exchange_index(index); }
    void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
        auto* impl = storage.unsafeGetStorageImpl();
        c10::DataPtr fresh = npu_allocator()->allocate(bytes);
        if (impl->data() != nullptr) {
            std::memcpy(fresh.get(), impl->data(), std::min(bytes, impl->nbytes()));
        }
        impl->set_data_ptr_noswap(std::move(fresh));
        impl->set_nbytes(bytes);
    }
};

const bool registered = [] {
    at::RegisterPrivateUse1HooksInterface(new Hooks());
    return true;
}();

}  // namespace
}  // namespace npu_twin
