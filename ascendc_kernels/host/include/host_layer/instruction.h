// What the API tells the monitor: one Instruction per call, with every byte range that it touches.
#pragma once

#include <cstdint>

#include "host_layer/core.h"
#include "host_layer/where.h"

namespace dsv4::host {

// Happens-before knowledge of one pipe: highest finished instruction that it has waited for, per pipe.
struct Edge {
    uint32_t seen[4] = {0, 0, 0, 0};
};

// A buffer of a TPipe. `generation` counts AllocTensor, so that a tensor kept after FreeTensor is recognised.
struct Buffer {
    enum State : uint8_t { FREE, ALLOCATED, ENQUEUED, DEQUEUED };
    uint32_t offset = 0;  // bytes from the start of UB
    uint32_t bytes = 0;
    uint32_t generation = 0;
    State state = FREE;
    bool was_freed = false;  // an edge from the consumer is pending
    int8_t event = -1;       // event id held by the pending edge
    Edge edge;
};

// Bytes of UB that a tensor may touch.
struct UbView {
    uint8_t* data = nullptr;
    uint32_t bytes = 0;
    const Buffer* buffer = nullptr;
    uint32_t generation = 0;
};

// Bytes of GM that a tensor may touch. root: what SetGlobalBuffer got; bytes: declared size, 0 if none was given.
struct GmView {
    uint8_t* data = nullptr;
    uint64_t bytes = 0;
    const uint8_t* root = nullptr;
    bool sized = false;
};

enum class Role : uint8_t { VECTOR, DMA_IN, DMA_OUT, SCALAR_UB, SCALAR_GM };

#if DSV4_HOST_CHECK

class Instruction {
 public:
    Instruction(pipe_t pipe, Role role, const char* name, Where where);

    // Reports a broken rule unless ok.
    void require(bool ok, const char* kind, const char* format, ...) const __attribute__((format(printf, 4, 5)));

    // A UB operand that starts at view.data: alignment, bounds, life time. Call before reads/writes.
    void operand(const UbView& view, uint64_t bytes, uint32_t align) const;
    void reads(const uint8_t* ub, uint32_t bytes);
    void writes(const uint8_t* ub, uint32_t bytes);
    void leaves_undefined(const uint8_t* ub, uint32_t bytes);  // written with bytes that no rule defines
    void reads_gm(const GmView& view, int64_t offset, uint64_t bytes);
    void writes_gm(const GmView& view, int64_t offset, uint64_t bytes);
    void counts(uint64_t bytes);  // bytes of a vector instruction's widest operand, for the repeat counter

 private:
    Monitor& monitor_;
    pipe_t pipe_;
    Role role_;
    const char* name_;
    Where where_;
    uint32_t sequence_;
};

void flag_set(AscendC::HardEvent event, int id, Where where);
void flag_wait(AscendC::HardEvent event, int id, Where where);
void flag_claimed(AscendC::HardEvent event, int id, bool claimed);  // an allocator owns the id
Edge edge_from(pipe_t pipe);
void edge_to(pipe_t pipe, const Edge& edge);
void barrier(pipe_t pipe);
void clean_cache(const GmView& view, bool entire, Where where);
uint8_t* placed(uint8_t* address);  // the launch's copy of a byte, for an address that a kernel finds in a table
void sync_all(Where where);
void sync_all_soft(const GmView& workspace, const UbView& local, int32_t used, Where where);
void undefine(const Buffer& buffer);  // contents of a freshly allocated tensor are random
void ub_reserved(uint32_t bytes);     // sum of InitBuffer lengths so far
void note_at_end(const char* kind, const char* format, ...) __attribute__((format(printf, 2, 3)));

template <typename... Args>
void expect(bool ok, const char* kind, Where where, const char* format, Args... args) {
    if (!ok) refuse(kind, where, format, args...);
}

#else

class Instruction {
 public:
    Instruction(pipe_t, Role, const char*, Where) {}
    template <typename... Args>
    void require(bool, const char*, const char*, Args...) const {}
    void operand(const UbView&, uint64_t, uint32_t) const {}
    void reads(const uint8_t*, uint32_t) {}
    void writes(const uint8_t*, uint32_t) {}
    void leaves_undefined(const uint8_t*, uint32_t) {}
    void reads_gm(const GmView&, int64_t, uint64_t) {}
    void writes_gm(const GmView&, int64_t, uint64_t) {}
    void counts(uint64_t) {}
};

inline void flag_set(AscendC::HardEvent, int, Where) {}
inline void flag_wait(AscendC::HardEvent, int, Where) {}
inline void flag_claimed(AscendC::HardEvent, int, bool) {}
inline Edge edge_from(pipe_t) { return {}; }
inline void edge_to(pipe_t, const Edge&) {}
inline void barrier(pipe_t) {}
inline void clean_cache(const GmView&, bool, Where) {}
inline uint8_t* placed(uint8_t* address) { return address; }
inline void sync_all(Where) { meet_all_cores(); }
inline void sync_all_soft(const GmView&, const UbView&, int32_t, Where) { meet_all_cores(); }
inline void undefine(const Buffer&) {}
inline void ub_reserved(uint32_t) {}
template <typename... Args>
void note_at_end(const char*, const char*, Args...) {}
template <typename... Args>
void expect(bool, const char*, Where, const char*, Args...) {}

#endif

}  // namespace dsv4::host
