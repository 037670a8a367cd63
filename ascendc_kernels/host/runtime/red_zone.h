// Bytes next to a tensor that nobody may write.
#pragma once

#include <cstdint>

namespace dsv4::host {

class RedZone {
 public:
    RedZone(uint8_t* begin, uint8_t* end) : begin_(begin), end_(end) {}

    // Fills the zone with its pattern; the address sanitizer, where it is on, then reports every access.
    void paint() const;

    // The first run of bytes, from .begin to .end, that are not the pattern's; empty if there is none. Ends the
    // sanitizer's watch.
    RedZone changed() const;

    const uint8_t* begin() const { return begin_; }
    const uint8_t* end() const { return end_; }
    bool empty() const { return begin_ == end_; }

 private:
    uint8_t* begin_;
    uint8_t* end_;
};

}  // namespace dsv4::host
