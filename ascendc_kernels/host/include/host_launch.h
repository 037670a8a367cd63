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

    // Each returns the caller's address, which a table for the kernel may hold too.
    GmAddress input(const void* data, uint64_t bytes, const char* name);
    GmAddress output(void* data, uint64_t bytes, const char* name);
    GmAddress inout(void* data, uint64_t bytes, const char* name) { return output(data, bytes, name); }

    // Runs body once per block and returns a Dsv4Status.
    int run(const std::function<void()>& body, char* error, size_t size);

#if DSV4_HOST_CHECK
    // The checking build runs on copies of the tensors. run() makes them, when all tensors are known.
    template <typename Kernel, typename... Arguments>
    void call(Kernel* kernel, Arguments... arguments) const {
        kernel(placed(arguments)...);
    }
#endif

 private:
#if DSV4_HOST_CHECK
    GmAddress placed(GmAddress address) const;
    template <typename T>
    static T placed(T scalar) {
        return scalar;
    }
#endif

    struct State;
    State* state_;
};

}  // namespace dsv4

#if DSV4_HOST_CHECK
#define DSV4_LAUNCH(launch, kernel, error, size, ...) \
    (launch).run([&] { (launch).call(kernel, __VA_ARGS__); }, error, size)
#else
#define DSV4_LAUNCH(launch, kernel, error, size, ...) (launch).run([&] { kernel(__VA_ARGS__); }, error, size)
#endif
