// TPipe: hands out UB and event ids of one core. TBuf: a buffer without a queue.
#pragma once

#include "host_layer/tensor.h"

namespace AscendC {

template <TPosition SOURCE, TPosition TARGET, int32_t DEPTH>
class TQueBind;

template <TPosition POSITION = TPosition::VECCALC>
class TBuf {
    static_assert(POSITION == TPosition::VECCALC, "host layer: TBuf is available for VECCALC only");

 public:
    template <typename T>
    LocalTensor<T> Get(dsv4::host::Where where = dsv4::host::Where::here()) {
        return GetWithOffset<T>(buffer_.bytes / sizeof(T), 0, where);
    }

    // size in elements
    template <typename T>
    LocalTensor<T> Get(uint32_t size, dsv4::host::Where where = dsv4::host::Where::here()) {
        return GetWithOffset<T>(size, 0, where);
    }

    // size in elements, offset in bytes
    template <typename T>
    LocalTensor<T> GetWithOffset(uint32_t size, uint32_t offset, dsv4::host::Where where = dsv4::host::Where::here()) {
        dsv4::host::expect(offset + uint64_t{size} * sizeof(T) <= buffer_.bytes, "UB out of bounds", where,
                           "TBuf::Get of %u elements at byte %u from a buffer of %u bytes", size, offset,
                           buffer_.bytes);
        return LocalTensor<T>({dsv4::host::core().ub + buffer_.offset + offset, static_cast<uint32_t>(size * sizeof(T)),
                               &buffer_, buffer_.generation});
    }

 private:
    friend class TPipe;
    dsv4::host::Buffer buffer_;
};

class TPipe {
 public:
    using Where = dsv4::host::Where;

    explicit TPipe(Where where = Where::here()) {
        dsv4::host::expect(dsv4::host::core().pipe == nullptr, "queue state", where, "%s",
                           "a second TPipe is created on this core");
        dsv4::host::core().pipe = this;
    }
    ~TPipe() { dsv4::host::core().pipe = nullptr; }
    TPipe(const TPipe&) = delete;
    TPipe& operator=(const TPipe&) = delete;

    // count buffers of bytes (rounded up to 32) each
    template <TPosition SOURCE, TPosition TARGET, int32_t DEPTH>
    bool InitBuffer(TQueBind<SOURCE, TARGET, DEPTH>& queue, uint8_t count, uint32_t bytes,
                    Where where = Where::here()) {
        constexpr auto position = static_cast<int>(SOURCE == TPosition::GM ? TARGET : SOURCE);
        if (count == 0 || count > dsv4::host::kEventIds || queue.count_ != 0) {
            dsv4::host::refuse("limit", where, "InitBuffer of a queue with %d buffers; 1..8, once per queue", count);
        }
        live_[position] += count;
        dsv4::host::expect(live_[position] <= dsv4::host::kEventIds, "limit", where,
                           "%d buffers at one TPosition, which has 8 event ids", live_[position]);
        for (uint8_t i = 0; i < count; ++i) reserve(queue.buffers_[i], bytes, where);
        queue.count_ = count;
        return true;
    }

    template <TPosition POSITION>
    bool InitBuffer(TBuf<POSITION>& buffer, uint32_t bytes, Where where = Where::here()) {
        reserve(buffer.buffer_, bytes, where);
        buffer.buffer_.state = dsv4::host::Buffer::ALLOCATED;
        return true;
    }

    // A free id, not reserved: set and wait before the next fetch.
    int8_t FetchEventID(HardEvent event, Where where = Where::here()) { return first_free(event, where); }
    template <HardEvent EVENT>
    int8_t FetchEventID(Where where = Where::here()) {
        return first_free(EVENT, where);
    }

    // A free id that stays reserved until ReleaseEventID.
    template <HardEvent EVENT>
    int8_t AllocEventID(Where where = Where::here()) {
        const int8_t id = first_free(EVENT, where);
        claim(EVENT, id);
        return id;
    }
    template <HardEvent EVENT>
    void ReleaseEventID(int8_t id, Where where = Where::here()) {
        dsv4::host::expect(id >= 0 && id < 8 && (events_[static_cast<int>(EVENT)] >> id & 1), "event id", where,
                           "ReleaseEventID(%d) of an id that is not allocated", id);
        release(EVENT, id);
    }

 private:
    template <TPosition SOURCE, TPosition TARGET, int32_t DEPTH>
    friend class TQueBind;

    void reserve(dsv4::host::Buffer& buffer, uint32_t bytes, Where where) {
        const uint64_t end =
            uint64_t{used_} + (uint64_t{bytes} + dsv4::host::kBlock - 1) / dsv4::host::kBlock * dsv4::host::kBlock;
        if (end > dsv4::host::kUbUsable) {
            dsv4::host::refuse("UB overflow", where, "InitBuffer needs UB up to byte %llu of %u usable",
                               static_cast<unsigned long long>(end), dsv4::host::kUbUsable);
        }
        if (++buffers_ > dsv4::host::kMaxBuffers) {
            dsv4::host::refuse("limit", where, "more than %u buffers", dsv4::host::kMaxBuffers);
        }
        buffer.offset = used_;
        buffer.bytes = static_cast<uint32_t>(end) - used_;
        used_ = static_cast<uint32_t>(end);
        dsv4::host::ub_reserved(used_);
    }

    int8_t first_free(HardEvent event, Where where) const {
        for (int8_t id = 0; id < 8; ++id) {
            if (!(events_[static_cast<int>(event)] >> id & 1)) return id;
        }
        dsv4::host::refuse("event id", where, "all 8 event ids of HardEvent %d are in use", static_cast<int>(event));
    }
    void claim(HardEvent event, int8_t id) {
        events_[static_cast<int>(event)] |= static_cast<uint8_t>(1u << id);
        dsv4::host::flag_claimed(event, id, true);
    }
    void release(HardEvent event, int8_t id) {
        events_[static_cast<int>(event)] &= static_cast<uint8_t>(~(1u << id));
        dsv4::host::flag_claimed(event, id, false);
    }

    uint32_t used_ = 0;
    uint32_t buffers_ = 0;
    uint8_t live_[4] = {0, 0, 0, 0};
    uint8_t events_[kHardEvents] = {};
};

inline TPipe* GetTPipePtr() { return dsv4::host::core().pipe; }

}  // namespace AscendC
