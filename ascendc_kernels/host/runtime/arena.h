// The memory of a launch: copies of its tensors, with red zones on both sides of each.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "red_zone.h"
#include "regions.h"

namespace dsv4::host {

class Arena {
 public:
    // A tensor of the caller. Places are given out when all tensors are known, so any may overlap any other.
    void declare(const void* data, uint64_t bytes, bool writable, const char* name);

    // Copies the tensors. Those that overlap share a copy; each copy keeps its address modulo kAlign.
    void fill(Regions& regions);

    // Where the copy of a caller's byte is. An address in no tensor stays what it is.
    uint8_t* placed(uint8_t* address) const;

    // What was written next to the tensors or into an input; empty if nothing was.
    std::string damage() const;

    // The caller gets what the launch wrote.
    void give_back() const;

 private:
    static constexpr uint64_t kAlign = 512;     // of allocations on the device: lines and blocks keep their phase
    static constexpr uint64_t kRedZone = 1024;  // at least; the half that is nearer to a tensor counts as its own

    // Tensors that overlap; sorted_[first] to sorted_[last - 1].
    struct Span {
        uint64_t begin = 0;  // at the caller
        uint64_t end = 0;
        size_t first = 0;
        size_t last = 0;
        uint8_t* copy = nullptr;
    };

    uint8_t* copy_end(const Span& span) const { return span.copy + (span.end - span.begin); }
    RedZone zone(size_t index) const;  // before spans_[index]; spans_.size(): after the last
    std::string damage_of_zone(size_t index) const;
    std::string damage_of_input(const Region& input, const Span& span) const;
    // Of the input's bytes [begin, end) in the copy from those of the caller.
    std::string difference(const Region& input, const Span& span, uint64_t begin, uint64_t end) const;

    std::vector<Region> declared_;  // begin and end at the caller
    std::vector<Region> sorted_;    // the same by address
    std::vector<Span> spans_;
    std::unique_ptr<uint8_t[]> memory_;
    uint8_t* begin_ = nullptr;
    uint8_t* end_ = nullptr;
};

}  // namespace dsv4::host
