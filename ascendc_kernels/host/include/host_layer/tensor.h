// GlobalTensor and LocalTensor: typed views of GM and UB. Offsets and sizes in elements.
#pragma once

#include "host_layer/instruction.h"

namespace AscendC {

template <typename T>
class GlobalTensor {
 public:
    using PrimType = T;
    using Where = dsv4::host::Where;

    // size: elements; on the device informative only, here it also bounds every access.
    void SetGlobalBuffer(__gm__ T* buffer, uint64_t size) {
        uint8_t* data = dsv4::host::placed(reinterpret_cast<uint8_t*>(buffer));
        view_ = {data, size * sizeof(T), data, true};
    }
    void SetGlobalBuffer(__gm__ T* buffer) {
        uint8_t* data = dsv4::host::placed(reinterpret_cast<uint8_t*>(buffer));
        view_ = {data, 0, data, false};
    }

    __gm__ T* GetPhyAddr(uint64_t offset = 0) const { return reinterpret_cast<T*>(view_.data) + offset; }

    GlobalTensor operator[](uint64_t offset) const {
        GlobalTensor part = *this;
        part.view_.data += offset * sizeof(T);
        if (view_.sized) {
            const uint64_t skipped = offset * sizeof(T);
            part.view_.bytes = skipped < view_.bytes ? view_.bytes - skipped : 0;
        }
        return part;
    }

    T GetValue(uint64_t offset, Where where = Where::here()) const {
        dsv4::host::Instruction access(PIPE_S, dsv4::host::Role::SCALAR_GM, "GlobalTensor::GetValue", where);
        access.reads_gm(view_, static_cast<int64_t>(offset * sizeof(T)), sizeof(T));
        T value;
        std::memcpy(&value, view_.data + offset * sizeof(T), sizeof(T));
        return value;
    }

    void SetValue(uint64_t offset, T value, Where where = Where::here()) {
        dsv4::host::Instruction access(PIPE_S, dsv4::host::Role::SCALAR_GM, "GlobalTensor::SetValue", where);
        access.writes_gm(view_, static_cast<int64_t>(offset * sizeof(T)), sizeof(T));
        std::memcpy(view_.data + offset * sizeof(T), &value, sizeof(T));
    }

    const dsv4::host::GmView& view() const { return view_; }  // host layer only

 private:
    dsv4::host::GmView view_;
};

template <typename T>
class LocalTensor {
 public:
    using PrimType = T;
    using Where = dsv4::host::Where;

    LocalTensor() = default;
    explicit LocalTensor(const dsv4::host::UbView& view) : view_(view) {}  // host layer only

    LocalTensor operator[](uint32_t offset) const {
        dsv4::host::UbView part = view_;
        const uint64_t skipped = uint64_t{offset} * sizeof(T);
        part.data += skipped;
        part.bytes = skipped < view_.bytes ? view_.bytes - static_cast<uint32_t>(skipped) : 0;
        return LocalTensor(part);
    }

    T GetValue(uint32_t index, Where where = Where::here()) const {
        dsv4::host::Instruction access(PIPE_S, dsv4::host::Role::SCALAR_UB, "LocalTensor::GetValue", where);
        access.operand(view_, (uint64_t{index} + 1) * sizeof(T), sizeof(T));
        access.reads(view_.data + index * sizeof(T), sizeof(T));
        T value;
        std::memcpy(&value, view_.data + index * sizeof(T), sizeof(T));
        return value;
    }

    void SetValue(uint32_t index, T value, Where where = Where::here()) const {
        dsv4::host::Instruction access(PIPE_S, dsv4::host::Role::SCALAR_UB, "LocalTensor::SetValue", where);
        access.operand(view_, (uint64_t{index} + 1) * sizeof(T), sizeof(T));
        access.writes(view_.data + index * sizeof(T), sizeof(T));
        std::memcpy(view_.data + index * sizeof(T), &value, sizeof(T));
    }

    template <typename U>
    LocalTensor<U> ReinterpretCast() const {
        return LocalTensor<U>(view_);
    }

    uint32_t GetSize() const { return view_.bytes / sizeof(T); }

    const dsv4::host::UbView& view() const { return view_; }  // host layer only
    T* data() const { return reinterpret_cast<T*>(view_.data); }

 private:
    dsv4::host::UbView view_;
};

}  // namespace AscendC
