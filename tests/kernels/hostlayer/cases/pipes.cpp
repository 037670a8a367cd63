// Order between the pipes of one core.
#include "case.h"

namespace cases {
namespace {

// M4: GetValue right after DataCopy.
template <bool FAULT>
void m4_scalar_after_copy(Tensors& t) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 256);
    LocalTensor<int32_t> a = buffer.Get<int32_t>();
    DataCopy(a, t.x, 64);
    if (!FAULT) order<HardEvent::MTE2_S>();
    (void)a.GetValue(3);
}
CASE(m4_scalar_after_copy, 1);

// M11: SetValue on a tensor that V still writes.
template <bool FAULT>
void m11_scalar_after_vector(Tensors&) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 256);
    LocalTensor<int32_t> a = buffer.Get<int32_t>();
    Duplicate(a, 1, 64);
    if (!FAULT) order<HardEvent::V_S>();
    a.SetValue(0, 5);
}
CASE(m11_scalar_after_vector, 1);

// M12: overwrite of a buffer that MTE3 still reads.
template <bool FAULT>
void m12_overwrite_outgoing(Tensors& t) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 256);
    LocalTensor<int32_t> a = buffer.Get<int32_t>();
    Duplicate(a, 1, 64);
    order<HardEvent::V_MTE3>();
    DataCopy(t.y, a, 64);
    if (!FAULT) order<HardEvent::MTE3_V>();
    PipeBarrier<PIPE_V>();
    Duplicate(a, 2, 64);
}
CASE(m12_overwrite_outgoing, 1);

// M15: SetFlag without WaitFlag.
template <bool FAULT>
void m15_flag_left_set(Tensors& t) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 256);
    DataCopy(buffer.Get<int32_t>(), t.x, 64);
    SetFlag<HardEvent::MTE2_V>(EVENT_ID1);
    if (!FAULT) WaitFlag<HardEvent::MTE2_V>(EVENT_ID1);
}
CASE(m15_flag_left_set, 1);

// M16: WaitFlag without SetFlag.
template <bool FAULT>
void m16_wait_forever(Tensors& t) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 256);
    DataCopy(buffer.Get<int32_t>(), t.x, 64);
    SetFlag<HardEvent::MTE2_V>(EVENT_ID1);
    WaitFlag<HardEvent::MTE2_V>(EVENT_ID1);
    if (FAULT) WaitFlag<HardEvent::MTE2_V>(EVENT_ID1);
}
CASE(m16_wait_forever, 1);

template <bool FAULT>
void flag_set_twice(Tensors&) {
    for (int i = 0; i < 2; ++i) {
        SetFlag<HardEvent::V_S>(EVENT_ID2);
        if (!FAULT) WaitFlag<HardEvent::V_S>(EVENT_ID2);
    }
}
CASE(flag_set_twice, 1);

template <bool FAULT>
void reserved_event_id(Tensors&) {
    SetFlag<HardEvent::V_S>(FAULT ? EVENT_ID6 : EVENT_ID5);
    WaitFlag<HardEvent::V_S>(FAULT ? EVENT_ID6 : EVENT_ID5);
}
CASE(reserved_event_id, 1);

// A hand-picked id that a queue holds at this moment.
template <bool FAULT>
void event_id_of_queue(Tensors& t) {
    TPipe pipe;
    TQue<TPosition::VECIN, 1> in;
    pipe.InitBuffer(in, 1, 256);
    LocalTensor<int32_t> a = in.AllocTensor<int32_t>();
    DataCopy(a, t.x, 64);
    in.EnQue(a);
    const int32_t id = FAULT ? 0 : GetTPipePtr()->FetchEventID(HardEvent::MTE2_V);
    SetFlag<HardEvent::MTE2_V>(id);
    WaitFlag<HardEvent::MTE2_V>(id);
    a = in.DeQue<int32_t>();
    in.FreeTensor(a);
}
CASE(event_id_of_queue, 1);

// SetValue, then DMA out of the same UB bytes.
template <bool FAULT>
void copy_after_scalar(Tensors& t) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 32);
    LocalTensor<int32_t> a = buffer.Get<int32_t>();
    for (uint32_t i = 0; i < 8; ++i) a.SetValue(i, 1);
    if (!FAULT) order<HardEvent::S_MTE3>();
    DataCopy(t.y, a, 8);
}
CASE(copy_after_scalar, 1);

// Dependent vector instructions; the compiler inserts the barrier in autosync.
template <bool FAULT>
void vector_after_vector(Tensors&) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 512);
    LocalTensor<int32_t> a = buffer.Get<int32_t>();
    Duplicate(a, 1, 64);
    if (!FAULT) PipeBarrier<PIPE_V>();
    Adds(a[64], a, 1, 64);
}
CASE(vector_after_vector, 1);

// Two DMAs into overlapping UB bytes.
template <bool FAULT>
void overlapping_dma_in(Tensors& t) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 512);
    LocalTensor<int32_t> a = buffer.Get<int32_t>();
    DataCopy(a, t.x, 64);
    if (!FAULT) PipeBarrier<PIPE_MTE2>();
    DataCopy(a[32], t.x, 64);
}
CASE(overlapping_dma_in, 1);

// Two DMAs into overlapping GM bytes.
template <bool FAULT>
void overlapping_dma_out(Tensors& t) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 256);
    LocalTensor<int32_t> a = buffer.Get<int32_t>();
    Duplicate(a, 1, 64);
    order<HardEvent::V_MTE3>();
    DataCopy(t.y, a, 64);
    if (!FAULT) PipeBarrier<PIPE_MTE3>();
    DataCopy(t.y[32], a, 64);
}
CASE(overlapping_dma_out, 1);

// The same core reads back through GM what it stored.
template <bool FAULT>
void read_back(Tensors& t) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> out, in;
    pipe.InitBuffer(out, 256);
    pipe.InitBuffer(in, 256);
    Duplicate(out.Get<int32_t>(), 1, 64);
    order<HardEvent::V_MTE3>();
    DataCopy(t.y, out.Get<int32_t>(), 64);
    if (!FAULT) order<HardEvent::MTE3_MTE2>();
    DataCopy(in.Get<int32_t>(), t.y, 64);
}
CASE(read_back, 1);

// Edges chain: MTE2 -> V -> MTE3 orders MTE3 after MTE2. The fault sets the flags of another pair.
template <bool FAULT>
void chained_edges(Tensors& t) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 256);
    LocalTensor<int32_t> a = buffer.Get<int32_t>();
    DataCopy(a, t.x, 64);
    if (FAULT) {
        order<HardEvent::MTE2_S>();
    } else {
        order<HardEvent::MTE2_V>();
    }
    order<HardEvent::V_MTE3>();
    DataCopy(t.y, a, 64);
}
CASE(chained_edges, 1);

}  // namespace
}  // namespace cases
