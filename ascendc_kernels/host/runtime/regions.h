// GM tensors of a launch: the only bytes that a kernel may touch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dsv4::host {

struct Region {
    uint64_t begin = 0;
    uint64_t end = 0;
    uint64_t home = 0;  // the caller's address of `begin`
    bool writable = false;
    std::string name;
};

class Regions {
 public:
    void add(const Region& region);

    // The tensor that holds `root` and also [begin, end) if there is one; else one that holds root; else null.
    const Region* find(uint64_t root, uint64_t begin, uint64_t end) const;

    // The tensor that has a byte at [home, home + bytes) at the caller, or null.
    const Region* at_home(uint64_t home, uint64_t bytes) const;

    // True if a writable tensor holds [begin, end).
    bool writable(uint64_t begin, uint64_t end) const;

 private:
    std::vector<Region> regions_;
};

}  // namespace dsv4::host
