#include "alias.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/TensorImpl.h>

#include "memory.h"

namespace npu_twin {
namespace {

const c10::Device kCpu(c10::DeviceType::CPU);

void drop_storage(void* owner) { delete static_cast<c10::Storage*>(owner); }

c10::DataPtr borrow(const c10::Storage& owner, c10::Device device) {
    return c10::DataPtr(const_cast<void*>(owner.data()), new c10::Storage(owner), &drop_storage, device);
}

c10::Storage storage_on(const c10::Storage& owner, c10::Device device, c10::Allocator* allocator) {
    return c10::Storage(c10::Storage::use_byte_size_t(), owner.nbytes(), borrow(owner, device), allocator, true);
}

at::Tensor over(c10::Storage storage, const at::Tensor& like, c10::DispatchKey key) {
    auto tensor = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(key), like.dtype());
    auto* impl = tensor.unsafeGetTensorImpl();
    impl->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
    if (like.unsafeGetTensorImpl()->is_wrapped_number()) {
        impl->set_wrapped_number(true);
    }
    if (like.is_conj()) {
        tensor._set_conj(true);
    }
    if (like.is_neg()) {
        tensor._set_neg(true);
    }
    return tensor;
}

at::Tensor fresh_npu(const at::Tensor& tensor, c10::Device device) {
    return over(storage_on(tensor.storage(), device, npu_allocator()), tensor, c10::DispatchKey::PrivateUse1);
}

}  // namespace

bool is_npu(const at::Tensor& tensor) {
    return tensor.defined() && tensor.device().type() == c10::DeviceType::PrivateUse1;
}

at::Tensor cpu_view(const at::Tensor& tensor) { return Shadows().of(tensor); }

at::Tensor npu_view(const at::Tensor& tensor) { return is_npu(tensor) ? tensor : fresh_npu(tensor, current_device()); }

at::Tensor Shadows::of(const at::Tensor& tensor) {
    if (!is_npu(tensor)) {
        return tensor;
    }
    prefer(tensor.device());
    for (auto& [npu, cpu] : tensors_) {
        if (npu.is_same(tensor)) {
            return cpu;
        }
    }
    const auto* wanted = tensor.storage().unsafeGetStorageImpl();
    const c10::Storage* shared = nullptr;
    for (auto& [npu, cpu] : storages_) {
        if (npu.unsafeGetStorageImpl() == wanted) {
            shared = &cpu;
        }
    }
    if (shared == nullptr) {
        storages_.emplace_back(tensor.storage(), storage_on(tensor.storage(), kCpu, c10::GetCPUAllocator()));
        shared = &storages_.back().second;
    }
    tensors_.emplace_back(tensor, over(*shared, tensor, c10::DispatchKey::CPU));
    return tensors_.back().second;
}

void Shadows::write_back() {
    for (auto& [npu, cpu] : storages_) {
        auto* to = npu.unsafeGetStorageImpl();
        auto* from = cpu.unsafeGetStorageImpl();
        if (to->data() != from->data() || to->nbytes() != from->nbytes()) {
            to->set_data_ptr_noswap(borrow(cpu, npu.device()));
            to->set_nbytes(from->nbytes());
        }
    }
    for (auto& [npu, cpu] : tensors_) {
        if (npu.sizes() != cpu.sizes() || npu.strides() != cpu.strides() ||
            npu.storage_offset() != cpu.storage_offset()) {
            npu.unsafeGetTensorImpl()->set_sizes_and_strides(cpu.sizes(), cpu.strides(), cpu.storage_offset());
        }
    }
}

at::Tensor Shadows::result(const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.device().type() != c10::DeviceType::CPU || !tensor.has_storage()) {
        return tensor;
    }
    for (auto& [npu, cpu] : tensors_) {
        if (cpu.is_same(tensor)) {
            return npu;
        }
    }
    for (auto& [npu, cpu] : storages_) {
        if (cpu.unsafeGetStorageImpl() == tensor.storage().unsafeGetStorageImpl()) {
            return over(npu, tensor, c10::DispatchKey::PrivateUse1);
        }
    }
    return fresh_npu(tensor, device_.value_or(current_device()));
}

void Shadows::prefer(c10::Device device) {
    if (!device_ && device.has_index()) {
        device_ = device;
    }
}

}  // namespace npu_twin
