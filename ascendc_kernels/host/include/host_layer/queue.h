// TQueBind and TQue: buffers that travel between two pipes, with the flags that order them.
#pragma once

#include "host_layer/pipe.h"

namespace AscendC {

// VECIN queues order MTE2 -> V, VECOUT queues V -> MTE3, a bound <VECIN, VECOUT> pair MTE2 -> MTE3; FreeTensor orders
// the way back. The order covers these two pipes only: scalar access needs flags of its own.
template <TPosition SOURCE, TPosition TARGET, int32_t DEPTH>
class TQueBind {
    static_assert(DEPTH >= 1 && DEPTH <= 8, "queue depth is 1..8");
    static_assert((SOURCE == TPosition::GM && TARGET == TPosition::VECIN) ||
                      (SOURCE == TPosition::VECOUT && TARGET == TPosition::GM) ||
                      (SOURCE == TPosition::VECIN && TARGET == TPosition::VECOUT),
                  "host layer: queues are VECIN, VECOUT or TQueBind<VECIN, VECOUT>");

    static constexpr HardEvent kForward = SOURCE == TPosition::GM       ? HardEvent::MTE2_V
                                          : SOURCE == TPosition::VECOUT ? HardEvent::V_MTE3
                                                                        : HardEvent::MTE2_MTE3;
    static constexpr HardEvent kBack = SOURCE == TPosition::GM       ? HardEvent::V_MTE2
                                       : SOURCE == TPosition::VECOUT ? HardEvent::MTE3_V
                                                                     : HardEvent::MTE3_MTE2;
    using Buffer = dsv4::host::Buffer;
    using Where = dsv4::host::Where;

 public:
    ~TQueBind() {
        for (int i = 0; i < count_; ++i) {
            if (buffers_[i].state != Buffer::FREE) {
                dsv4::host::note_at_end("queue state", "buffer %d of a queue is never freed", i);
            }
        }
    }

    template <typename T>
    LocalTensor<T> AllocTensor(Where where = Where::here()) {
        // Round robin, as the device does: the buffer freed longest ago has the best chance to be ready.
        for (int step = 0; step < count_; ++step) {
            Buffer& buffer = buffers_[(next_ + step) % count_];
            if (buffer.state != Buffer::FREE) continue;
            next_ = (next_ + step + 1) % count_;
            if (buffer.was_freed) {
                dsv4::host::edge_to(event_target(kBack), buffer.edge);
                pipe().release(kBack, buffer.event);
                buffer.was_freed = false;
            }
            buffer.state = Buffer::ALLOCATED;
            ++buffer.generation;
            dsv4::host::undefine(buffer);
            return tensor<T>(buffer);
        }
        dsv4::host::refuse("queue depth exceeded", where, "AllocTensor: all %d buffers are in use", count_);
    }

    template <typename T>
    bool EnQue(const LocalTensor<T>& tensor, Where where = Where::here()) {
        Buffer& buffer = owner(tensor.view(), Buffer::ALLOCATED, "EnQue", where);
        dsv4::host::expect(waiting_ < DEPTH, "queue depth exceeded", where, "EnQue: %d tensors wait already", waiting_);
        buffer.state = Buffer::ENQUEUED;
        buffer.edge = dsv4::host::edge_from(event_source(kForward));
        buffer.event = pipe().first_free(kForward, where);
        pipe().claim(kForward, buffer.event);
        order_[(first_ + waiting_++) % 8] = static_cast<int8_t>(&buffer - buffers_);
        return true;
    }

    template <typename T>
    LocalTensor<T> DeQue(Where where = Where::here()) {
        if (waiting_ == 0) dsv4::host::refuse("queue state", where, "%s", "DeQue from an empty queue");
        Buffer& buffer = buffers_[order_[first_]];
        first_ = (first_ + 1) % 8;
        --waiting_;
        buffer.state = Buffer::DEQUEUED;
        dsv4::host::edge_to(event_target(kForward), buffer.edge);
        pipe().release(kForward, buffer.event);
        return tensor<T>(buffer);
    }

    template <typename T>
    void FreeTensor(const LocalTensor<T>& tensor, Where where = Where::here()) {
        Buffer& buffer = owner(tensor.view(), Buffer::DEQUEUED, "FreeTensor", where);
        buffer.state = Buffer::FREE;
        buffer.was_freed = true;
        buffer.edge = dsv4::host::edge_from(event_source(kBack));
        buffer.event = pipe().first_free(kBack, where);
        pipe().claim(kBack, buffer.event);
    }

 private:
    friend class TPipe;

    static TPipe& pipe() { return *dsv4::host::core().pipe; }

    template <typename T>
    LocalTensor<T> tensor(const Buffer& buffer) const {
        return LocalTensor<T>({dsv4::host::core().ub + buffer.offset, buffer.bytes, &buffer, buffer.generation});
    }

    Buffer& owner(const dsv4::host::UbView& view, Buffer::State state, const char* verb, Where where) {
        for (int i = 0; i < count_; ++i) {
            Buffer& buffer = buffers_[i];
            if (view.buffer != &buffer) continue;
            // A tensor that never left the producer may be freed directly.
            const bool fits = buffer.state == state || (state == Buffer::DEQUEUED && buffer.state == Buffer::ALLOCATED);
            if (fits && view.generation == buffer.generation) return buffer;
            dsv4::host::refuse("queue state", where, "%s of a tensor that is %s", verb,
                               buffer.state == Buffer::FREE || view.generation != buffer.generation ? "free already"
                               : buffer.state == Buffer::ENQUEUED                                   ? "in the queue"
                                                                                                    : "dequeued");
        }
        dsv4::host::refuse("queue state", where, "%s of a tensor from elsewhere", verb);
    }

    Buffer buffers_[8];
    int count_ = 0;
    int next_ = 0;
    int8_t order_[8] = {};
    int first_ = 0;
    int waiting_ = 0;
};

template <TPosition POSITION, int32_t DEPTH>
class TQue : public TQueBind<POSITION == TPosition::VECIN ? TPosition::GM : POSITION,
                             POSITION == TPosition::VECIN ? TPosition::VECIN : TPosition::GM, DEPTH> {
    static_assert(POSITION == TPosition::VECIN || POSITION == TPosition::VECOUT,
                  "host layer: queues are VECIN or VECOUT");
};

}  // namespace AscendC
