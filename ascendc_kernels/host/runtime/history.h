// Accesses to a memory that later accesses can still race with, by line.
#pragma once

#include <unordered_map>
#include <vector>

#include "clock.h"

namespace dsv4::host {

enum class Space : uint8_t { UB, GM };

struct Access {
    uint64_t begin = 0;  // UB: offset; GM: address
    uint64_t end = 0;
    uint32_t number = 0;  // of the instruction on its pipe
    uint32_t epoch = 0;   // SyncAll calls before it
    uint16_t core = 0;
    pipe_t pipe = PIPE_S;
    bool write = false;
    const char* name = "";
    Where where;
};

class History {
 public:
    History(Space space, bool autosync) : space_(space), autosync_(autosync) {}

    // Records the access; returns the earlier one that it races with, or null.
    const Access* add(const Access& access, const Clock& clock);

 private:
    bool ordered(const Access& earlier, const Access& later, const Clock& clock) const;
    bool synchronised_by_compiler(const Access& earlier, const Access& later) const;

    Space space_;
    bool autosync_;
    std::unordered_map<uint64_t, std::vector<Access>> lines_;
};

}  // namespace dsv4::host
