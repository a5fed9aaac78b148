# Language standard, warnings and processor for every target.
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG -g1")
find_program(SHOAL_CCACHE ccache)
if(SHOAL_CCACHE)
  # Paths are taken relative to the build folder, so that the programs for CPUs and for GPUs share what they have in common.
  set(ccache_settings CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=true)
  if(SHOAL_ARCH STREQUAL native)
    # For ccache -march=native is only a word, but it means another processor on each machine that uses the same home folder.
    # The namespace below has a hash of the real options.
    execute_process(COMMAND ${CMAKE_CXX_COMPILER} -march=native -E -v -x c++ /dev/null WORKING_DIRECTORY / OUTPUT_QUIET
      ERROR_VARIABLE told)
    string(REGEX MATCH "[^\n]*cc1[^\n]*" native "${told}")
    string(MD5 native "${native}")
    string(SUBSTRING ${native} 0 12 native)
    list(APPEND ccache_settings CCACHE_NAMESPACE=shoal-${native})
  endif()
  list(APPEND ccache_settings CCACHE_SLOPPINESS=pch_defines,time_macros)  # else it never caches what uses precompiled headers
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env ${ccache_settings} ${SHOAL_CCACHE})
endif()

# The sanitizers' build compiles several sources as one, always: it takes a third of the time.
if(SHOAL_SANITIZE)
  set(SHOAL_UNITY ON)
endif()

add_library(shoal_settings INTERFACE)
# Headers that only their room includes are named from src/, too: "io/hdf5/seal.hpp" (tests/house/layers_test.py).
target_include_directories(shoal_settings INTERFACE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
# -ffast-math is not used: it hides NaN and reorders sums. The compiler may not fuse multiplications and additions either; kernels
# call fma() (kernels/rules/number.hpp) where they want it, so that the body and the tail of a vector give the same bits.
target_compile_options(shoal_settings INTERFACE -Wall -Wextra -Wpedantic -Wshadow
  $<$<BOOL:${SHOAL_WERROR}>:-Werror> -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(shoal_settings INTERFACE -Wno-restrict)  # false alarms in std::string's operator+ (GCC bug 105651)
endif()
if(SHOAL_ARCH STREQUAL portable)
  target_compile_options(shoal_settings INTERFACE -march=x86-64-v3)
elseif(SHOAL_ARCH)
  target_compile_options(shoal_settings INTERFACE -march=${SHOAL_ARCH})
endif()
if(SHOAL_SANITIZE)
  target_compile_options(shoal_settings INTERFACE -fsanitize=${SHOAL_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  if(SHOAL_SANITIZE_WITHOUT)
    target_compile_options(shoal_settings INTERFACE -fno-sanitize=${SHOAL_SANITIZE_WITHOUT})
  endif()
  target_link_options(shoal_settings INTERFACE -fsanitize=${SHOAL_SANITIZE})
endif()
