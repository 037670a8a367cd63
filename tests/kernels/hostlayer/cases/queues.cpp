// Queues and the order that they give.
#include "case.h"

namespace cases {
namespace {

using InQueue = TQue<TPosition::VECIN, 2>;
using OutQueue = TQue<TPosition::VECOUT, 1>;

// M1: no EnQue/DeQue between DataCopy and a vector instruction.
template <bool FAULT>
void m1_no_enque(Tensors& t) {
    TPipe pipe;
    InQueue in;
    OutQueue out;
    pipe.InitBuffer(in, 1, 256);
    pipe.InitBuffer(out, 1, 256);
    LocalTensor<int32_t> a = in.AllocTensor<int32_t>();
    DataCopy(a, t.x, 64);
    if (!FAULT) {
        in.EnQue(a);
        a = in.DeQue<int32_t>();
    }
    LocalTensor<int32_t> b = out.AllocTensor<int32_t>();
    Adds(b, a, 1, 64);
    in.FreeTensor(a);
    out.EnQue(b);
    b = out.DeQue<int32_t>();
    DataCopy(t.y, b, 64);
    out.FreeTensor(b);
}
CASE(m1_no_enque, 1);

// M5: FreeTensor twice.
template <bool FAULT>
void m5_double_free(Tensors& t) {
    TPipe pipe;
    InQueue in;
    pipe.InitBuffer(in, 2, 256);
    LocalTensor<int32_t> a = in.AllocTensor<int32_t>();
    DataCopy(a, t.x, 64);
    in.EnQue(a);
    a = in.DeQue<int32_t>();
    in.FreeTensor(a);
    if (FAULT) in.FreeTensor(a);
}
CASE(m5_double_free, 1);

// M8: AllocTensor without FreeTensor.
template <bool FAULT>
void m8_no_free(Tensors& t) {
    TPipe pipe;
    InQueue in;
    pipe.InitBuffer(in, 2, 256);
    for (int i = 0; i < 3; ++i) {
        LocalTensor<int32_t> a = in.AllocTensor<int32_t>();
        DataCopy(a, t.x, 64);
        in.EnQue(a);
        a = in.DeQue<int32_t>();
        if (!FAULT) in.FreeTensor(a);
    }
}
CASE(m8_no_free, 1);

// A buffer that is never freed, within the depth.
template <bool FAULT>
void leaked_buffer(Tensors& t) {
    TPipe pipe;
    InQueue in;
    pipe.InitBuffer(in, 1, 256);
    LocalTensor<int32_t> a = in.AllocTensor<int32_t>();
    DataCopy(a, t.x, 64);
    in.EnQue(a);
    a = in.DeQue<int32_t>();
    if (!FAULT) in.FreeTensor(a);
}
CASE(leaked_buffer, 1);

// DeQue of what nobody put in.
template <bool FAULT>
void deque_empty(Tensors& t) {
    TPipe pipe;
    InQueue in;
    pipe.InitBuffer(in, 1, 256);
    LocalTensor<int32_t> a = in.AllocTensor<int32_t>();
    DataCopy(a, t.x, 64);
    if (!FAULT) in.EnQue(a);
    a = in.DeQue<int32_t>();
    in.FreeTensor(a);
}
CASE(deque_empty, 1);

// A tensor kept after FreeTensor.
template <bool FAULT>
void used_after_free(Tensors& t) {
    TPipe pipe;
    OutQueue out;
    pipe.InitBuffer(out, 1, 256);
    LocalTensor<int32_t> a = out.AllocTensor<int32_t>();
    Duplicate(a, 7, 64);
    out.EnQue(a);
    a = out.DeQue<int32_t>();
    if (!FAULT) DataCopy(t.y, a, 64);
    out.FreeTensor(a);
    if (FAULT) DataCopy(t.y, a, 64);
}
CASE(used_after_free, 1);

// More live buffers at a position than it has event ids.
template <bool FAULT>
void nine_buffers(Tensors&) {
    TPipe pipe;
    InQueue first, second;
    pipe.InitBuffer(first, 4, 32);
    pipe.InitBuffer(second, FAULT ? 5 : 4, 32);
}
CASE(nine_buffers, 1);

// The second buffer of a double-buffered loop is overwritten while V reads the first: FreeTensor orders it.
template <bool FAULT>
void refill_before_free(Tensors& t) {
    TPipe pipe;
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> queue;
    pipe.InitBuffer(queue, 1, 256);
    LocalTensor<int32_t> a = queue.AllocTensor<int32_t>();
    DataCopy(a, t.x, 64);
    queue.EnQue(a);
    a = queue.DeQue<int32_t>();
    DataCopy(t.y, a, 64);
    if (!FAULT) {
        queue.FreeTensor(a);
        a = queue.AllocTensor<int32_t>();
    }
    DataCopy(a, t.x[64], 64);
    queue.EnQue(a);
    a = queue.DeQue<int32_t>();
    DataCopy(t.y[64], a, 64);
    queue.FreeTensor(a);
}
CASE(refill_before_free, 1);

// A scalar read is not covered by a VECIN queue: MTE2 may refill the buffer under it.
template <bool FAULT>
void scalar_read_then_refill(Tensors& t) {
    TPipe pipe;
    InQueue in;
    pipe.InitBuffer(in, 1, 256);
    for (uint32_t i = 0; i < 2; ++i) {
        LocalTensor<int32_t> a = in.AllocTensor<int32_t>();
        DataCopy(a, t.x[i * 64], 64);
        in.EnQue(a);
        a = in.DeQue<int32_t>();
        order<HardEvent::MTE2_S>();
        (void)a.GetValue(0);
        if (!FAULT) order<HardEvent::S_MTE2>();
        in.FreeTensor(a);
    }
}
CASE(scalar_read_then_refill, 1);

}  // namespace
}  // namespace cases
