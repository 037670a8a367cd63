// Checks of one API call against the rules of the device.
#include "host_layer/instruction.h"

#include "fibers.h"
#include "monitor.h"

namespace dsv4::host {

Instruction::Instruction(pipe_t pipe, Role role, const char* name, Where where)
    : monitor_(monitor()), pipe_(pipe), role_(role), name_(name), where_(where) {
    const bool reaches_gm = role != Role::VECTOR && role != Role::SCALAR_UB;
    if (reaches_gm && Fibers::active() != nullptr) Fibers::active()->yield();
    sequence_ = monitor_.clock.issue(pipe);
    dsv4_counters& counters = monitor_.counters;
    counters.vector_instructions += role == Role::VECTOR;
    counters.dma_in_instructions += role == Role::DMA_IN;
    counters.dma_out_instructions += role == Role::DMA_OUT;
}

void Instruction::require(bool ok, const char* kind, const char* format, ...) const {
    if (ok) return;
    va_list values;
    va_start(values, format);
    const std::string rule = format_list(format, values);
    va_end(values);
    monitor_.report(kind, where_, std::string(name_) + ": " + rule);
}

void Instruction::operand(const UbView& view, uint64_t bytes, uint32_t align) const {
    require(view.buffer != nullptr, "UB out of bounds", "%s", "tensor of no buffer");
    const bool live = view.generation == view.buffer->generation && view.buffer->state != Buffer::FREE;
    require(live, "queue state", "%s", "tensor is used after FreeTensor");
    const int64_t offset = view.data - monitor_.core.ub;
    require(offset % align == 0, align == kBlock ? "UB address not 32 B aligned" : "UB address not aligned",
            "operand starts at UB byte %lld", static_cast<long long>(offset));
    require(bytes <= view.bytes, "UB out of bounds", "%llu bytes from UB byte %lld, where the tensor has %u",
            static_cast<unsigned long long>(bytes), static_cast<long long>(offset), view.bytes);
}

void Instruction::reads(const uint8_t* ub, uint32_t bytes) {
    if (bytes == 0) return;
    const auto begin = static_cast<uint64_t>(ub - monitor_.core.ub);
    if (role_ == Role::SCALAR_UB) ++monitor_.counters.scalar_ub_reads;
    monitor_.access(Space::UB, {begin, begin + bytes, sequence_, monitor_.epoch,
                                static_cast<uint16_t>(monitor_.core.index), pipe_, false, name_, where_});
    const auto first = monitor_.defined.begin() + static_cast<int64_t>(begin);
    const auto hole = std::find(first, first + bytes, uint8_t{0});
    require(hole == first + bytes, "uninitialised UB read", "(%s) reads UB byte %lld of [%llu, %llu), never written",
            pipe_ == PIPE_S   ? "S"
            : pipe_ == PIPE_V ? "V"
                              : "MTE3",
            static_cast<long long>(hole - monitor_.defined.begin()), static_cast<unsigned long long>(begin),
            static_cast<unsigned long long>(begin + bytes));
}

void Instruction::writes(const uint8_t* ub, uint32_t bytes) {
    if (bytes == 0) return;
    const auto begin = static_cast<uint64_t>(ub - monitor_.core.ub);
    if (role_ == Role::SCALAR_UB) ++monitor_.counters.scalar_ub_writes;
    monitor_.access(Space::UB, {begin, begin + bytes, sequence_, monitor_.epoch,
                                static_cast<uint16_t>(monitor_.core.index), pipe_, true, name_, where_});
    std::fill_n(monitor_.defined.begin() + static_cast<int64_t>(begin), bytes, uint8_t{1});
}

void Instruction::leaves_undefined(const uint8_t* ub, uint32_t bytes) {
    writes(ub, bytes);
    const int64_t begin = ub - monitor_.core.ub;
    std::fill_n(monitor_.defined.begin() + begin, bytes, uint8_t{0});
    std::memset(monitor_.core.ub + begin, 0xA5, bytes);
}

namespace {

struct Place {
    uint64_t address = 0;
    uint64_t home = 0;  // at the caller: tensors that share a data-cache line there share it on the device
};

// Bounds of a GM access; returns its place.
Place locate(const Instruction& access, const Regions& regions, const GmView& view, int64_t offset, uint64_t bytes) {
    const auto address = reinterpret_cast<uint64_t>(view.data) + static_cast<uint64_t>(offset);
    const auto root = reinterpret_cast<uint64_t>(view.root);
    const Region* region = regions.find(root, address, address + bytes);
    access.require(region != nullptr, "GM out of bounds", "0x%llx is in no tensor of this launch",
                   static_cast<unsigned long long>(root));
    access.require(address >= region->begin && address + bytes <= region->end, "GM out of bounds",
                   "bytes [%lld, %lld) of %s, which has %llu", static_cast<long long>(address - region->begin),
                   static_cast<long long>(address + bytes - region->begin), region->name.c_str(),
                   static_cast<unsigned long long>(region->end - region->begin));
    access.require(!view.sized || (offset >= 0 && static_cast<uint64_t>(offset) + bytes <= view.bytes),
                   "GM out of bounds", "%llu bytes at %lld, past the size given to SetGlobalBuffer (%llu bytes left)",
                   static_cast<unsigned long long>(bytes), static_cast<long long>(offset),
                   static_cast<unsigned long long>(view.bytes));
    return {address, region->home + (address - region->begin)};
}

}  // namespace

void Instruction::reads_gm(const GmView& view, int64_t offset, uint64_t bytes) {
    const auto [address, home] = locate(*this, monitor_.device.regions, view, offset, bytes);
    LineFault fault;
    if (role_ == Role::SCALAR_GM) {
        ++monitor_.counters.scalar_gm_reads;
        fault = monitor_.cache.read(home, bytes);
    } else {
        monitor_.counters.dma_in_bytes += bytes;
        fault = monitor_.cache.dma(home, bytes, false);
    }
    if (fault.kind != nullptr) monitor_.report(fault, name_, where_);
    monitor_.access(Space::GM, {address, address + bytes, sequence_, monitor_.epoch,
                                static_cast<uint16_t>(monitor_.core.index), pipe_, false, name_, where_});
}

void Instruction::writes_gm(const GmView& view, int64_t offset, uint64_t bytes) {
    const auto [address, home] = locate(*this, monitor_.device.regions, view, offset, bytes);
    require(monitor_.device.regions.writable(address, address + bytes), "read-only tensor written", "%s",
            "the launch declares this tensor as input");
    LineFault fault;
    if (role_ == Role::SCALAR_GM) {
        ++monitor_.counters.scalar_gm_writes;
        fault = monitor_.cache.write(home, bytes, monitor_.epoch);
    } else {
        monitor_.counters.dma_out_bytes += bytes;
        fault = monitor_.cache.dma(home, bytes, true);
    }
    if (fault.kind != nullptr) monitor_.report(fault, name_, where_);
    monitor_.access(Space::GM, {address, address + bytes, sequence_, monitor_.epoch,
                                static_cast<uint16_t>(monitor_.core.index), pipe_, true, name_, where_});
}

void Instruction::counts(uint64_t bytes) { monitor_.counters.vector_repeats += (bytes + kRepeat - 1) / kRepeat; }

}  // namespace dsv4::host
