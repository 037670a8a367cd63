// The scalar data cache: 64-byte lines per core, not coherent with other cores or with DMA.
#pragma once

#include <cstdint>
#include <unordered_map>

namespace dsv4::host {

// State of lines that some core has cached, shared by all cores of a launch.
struct SharedLine {
    uint64_t version = 0;  // grows with every write that reaches GM
    uint64_t dirty = 0;    // bytes written by `writer` and not yet written back
    int32_t writer = -1;   // last core that wrote the line through its cache
    uint32_t epoch = 0;    // of that write
};
using SharedLines = std::unordered_map<uint64_t, SharedLine>;

// A broken rule at the line that starts at `address`; kind is null if all is well.
struct LineFault {
    const char* kind = nullptr;
    const char* text = "";
    uint64_t address = 0;
    int32_t writer = -1;
};

class Cache {
 public:
    Cache(SharedLines& shared, uint32_t core) : shared_(shared), core_(static_cast<int32_t>(core)) {}

    LineFault read(uint64_t address, uint64_t bytes);
    LineFault write(uint64_t address, uint64_t bytes, uint32_t epoch);
    LineFault dma(uint64_t address, uint64_t bytes, bool write);
    void clean(uint64_t address);  // from address to the end of its line
    void clean_all();
    LineFault at_end() const;

 private:
    LineFault stale(uint64_t line) const;

    SharedLines& shared_;
    int32_t core_;
    std::unordered_map<uint64_t, uint64_t> lines_;  // line -> version when it was loaded
};

}  // namespace dsv4::host
