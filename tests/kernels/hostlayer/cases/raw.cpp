// Writes that no instruction reports: through a pointer into GM.
#include "case.h"

namespace cases {
namespace {

uint8_t* bytes_of(const GlobalTensor<int32_t>& tensor) { return reinterpret_cast<uint8_t*>(tensor.GetPhyAddr()); }

template <bool FAULT>
void raw_write_after_end(Tensors& t) {
    bytes_of(t.y)[kWords * 4 - (FAULT ? 0 : 1)] = 1;
}
CASE(raw_write_after_end, 1);

template <bool FAULT>
void raw_write_before_start(Tensors& t) {
    bytes_of(t.y)[FAULT ? -1 : 0] = 1;
}
CASE(raw_write_before_start, 1);

// Two cores, and an instruction that is in order.
template <bool FAULT>
void raw_write_into_input(Tensors& t) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 256);
    DataCopy(buffer.Get<int32_t>(), t.x, 64);
    if (!first_core()) (FAULT ? t.x : t.y).GetPhyAddr()[2] = -1;
}
CASE(raw_write_into_input, 2);

}  // namespace
}  // namespace cases
