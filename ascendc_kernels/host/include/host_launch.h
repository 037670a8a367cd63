// launch.h for the host builds: blocks are fibers of the calling thread.
#pragma once

#include <functional>

#include "abi.h"

namespace dsv4 {

// Vector cores that the host build pretends to have.
uint32_t aiv_cores();

class Launch {
 public:
    Launch(const char* kernel, uint32_t blocks, void* stream);
    ~Launch();
    Launch(const Launch&) = delete;
    Launch& operator=(const Launch&) = delete;

    GmAddress input(const void* data, uint64_t bytes, const char* name);
    GmAddress output(void* data, uint64_t bytes, const char* name);
    GmAddress inout(void* data, uint64_t bytes, const char* name) { return output(data, bytes, name); }

    // Runs body once per block and returns a Dsv4Status.
    int run(const std::function<void()>& body, char* error, size_t size);

 private:
    struct State;
    State* state_;
};

}  // namespace dsv4

#define DSV4_LAUNCH(launch, kernel, error, size, ...) (launch).run([&] { kernel(__VA_ARGS__); }, error, size)
