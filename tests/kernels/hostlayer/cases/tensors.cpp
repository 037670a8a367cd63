// Kernels on tensors that the test declares, wherever they are in its memory.
#include <cstring>

#include "case.h"
#include "launch.h"

namespace cases {
namespace {

using dsv4::GmAddress;

constexpr uint32_t kPart = 64;  // int32 per step of a relay

GlobalTensor<int32_t> words(GmAddress address) {
    GlobalTensor<int32_t> tensor;
    tensor.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(address));
    return tensor;
}

template <typename T>
void publish(const GlobalTensor<T>& tensor) {
    DataCacheCleanAndInvalid<T, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(tensor);
}

// A byte at `offset` of the tensor, by pointer.
void poke(GmAddress tensor, int64_t offset) { tensor[offset] = 0xFF; }

void peek(GmAddress tensor, int64_t offset) {
    if (static_cast<volatile uint8_t*>(tensor)[offset] == 0xFF) tensor[0] = 0xFF;
}

// The next byte's value, by pointer.
void repeat(GmAddress tensor, int64_t offset) { tensor[offset] = tensor[offset + 1]; }

// A broken rule after the pointer's write.
void poke_and_overrun(GmAddress tensor, int64_t offset) {
    poke(tensor, offset);
    (void)words(tensor).GetValue(1 << 20);
}

// out = in[:64] + 1, then probe = in[64:128]: sees what out wrote if they overlap.
void relay(GmAddress in, GmAddress out, GmAddress probe) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, kPart * 4);
    LocalTensor<int32_t> part = buffer.Get<int32_t>();
    DataCopy(part, words(in), kPart);
    order<HardEvent::MTE2_V>();
    Adds(part, part, 1, kPart);
    order<HardEvent::V_MTE3>();
    DataCopy(words(out), part, kPart);
    order<HardEvent::MTE3_MTE2>();
    DataCopy(part, words(in)[kPart], kPart);
    order<HardEvent::MTE2_MTE3>();
    DataCopy(words(probe), part, kPart);
}

// The same with the addresses in a table.
void relay_by_table(GmAddress table) {
    GlobalTensor<int64_t> addresses;
    addresses.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(table));
    const auto row = [&](uint32_t i) { return reinterpret_cast<GmAddress>(addresses.GetValue(i)); };
    relay(row(0), row(1), row(2));
}

// The address that the kernel got.
void address(GmAddress tensor, GmAddress out) {
    GlobalTensor<int64_t> there;
    there.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(out));
    there.SetValue(0, reinterpret_cast<int64_t>(tensor));
    publish(there);
}

// Two cores, each with a tensor of its own.
void one_word_each(GmAddress first, GmAddress second) {
    const GlobalTensor<int32_t> mine = words(first_core() ? first : second);
    GlobalTensor<int32_t> written = mine;
    written.SetValue(0, 1);
    publish(written);
}

}  // namespace
}  // namespace cases

struct Declared {
    void* data;
    uint64_t bytes;
    int32_t writable;
    const char* name;
};

// Declares the tensors in their order and runs `kernel` on those that have the names it asks for.
extern "C" DSV4_EXPORT int hostlayer_tensors(const char* kernel, const Declared* tensors, uint32_t count,
                                             int64_t offset, char* error, size_t size) {
    const auto is = [&](const char* name) { return std::strcmp(kernel, name) == 0; };
    dsv4::Launch launch(kernel, is("one_word_each") ? 2 : 1, nullptr);
    for (uint32_t i = 0; i < count; ++i) {
        const Declared& t = tensors[i];
        t.writable ? launch.output(t.data, t.bytes, t.name) : launch.input(t.data, t.bytes, t.name);
    }
    const auto at = [&](const char* name) {
        for (uint32_t i = 0; i < count; ++i) {
            if (std::strcmp(tensors[i].name, name) == 0) return static_cast<dsv4::GmAddress>(tensors[i].data);
        }
        return dsv4::GmAddress{};
    };
    auto *in = at("in"), *out = at("out"), *probe = at("probe"), *table = at("table");
    using namespace cases;
    if (is("poke")) return DSV4_LAUNCH(launch, poke, error, size, out, offset);
    if (is("poke_input")) return DSV4_LAUNCH(launch, poke, error, size, in, offset);
    if (is("peek")) return DSV4_LAUNCH(launch, peek, error, size, out, offset);
    if (is("repeat")) return DSV4_LAUNCH(launch, repeat, error, size, out, offset);
    if (is("poke_and_overrun")) return DSV4_LAUNCH(launch, poke_and_overrun, error, size, out, offset);
    if (is("relay")) return DSV4_LAUNCH(launch, relay, error, size, in, out, probe);
    if (is("relay_by_table")) return DSV4_LAUNCH(launch, relay_by_table, error, size, table);
    if (is("address")) return DSV4_LAUNCH(launch, address, error, size, in, out);
    if (is("one_word_each")) return DSV4_LAUNCH(launch, one_word_each, error, size, out, probe);
    return dsv4::fail(DSV4_BAD_ARGUMENT, error, size, "no kernel %s", kernel);
}
