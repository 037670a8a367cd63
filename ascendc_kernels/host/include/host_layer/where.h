// Call site of an API call, captured as a default argument.
#pragma once

namespace dsv4::host {

struct Where {
    const char* file = "";
    int line = 0;

    static constexpr Where here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
        return {file, line};
    }
};

}  // namespace dsv4::host
