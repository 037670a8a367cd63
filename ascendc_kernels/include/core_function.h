// For layout headers, which a core's code and the host side both include. On the core every function needs __aicore__.
#pragma once

// A macro of kernel_operator.h, which a kernel includes before its layout header; the host side does not have it.
#if defined(__aicore__)
#define DSV4_AICORE __aicore__
#else
#define DSV4_AICORE
#endif
