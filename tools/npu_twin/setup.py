"""Build of the compiled part; everything else is in pyproject.toml."""

import glob

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

setup(
    ext_modules=[
        CppExtension(
            "torch_npu._twin",
            sorted(glob.glob("csrc/*.cpp")),
            extra_compile_args=["-O1", "-g0", "-Wno-sign-compare"],
        )
    ],
    cmdclass={"build_ext": BuildExtension},
)
