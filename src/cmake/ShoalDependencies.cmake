# Finds every library that the default build needs. A missing one is named together with the package or module that provides it.
function(shoal_missing what debian module spack)
  message(FATAL_ERROR
    "${what} was not found.\n  Debian/Ubuntu: apt-get install ${debian}   (or: make deps)\n"
    "  Cray and other clusters: module load ${module}\n  Spack: spack install ${spack}")
endfunction()

find_package(MPI COMPONENTS CXX)
if(NOT MPI_CXX_FOUND)
  shoal_missing("MPI (MPICH)" "mpich libmpich-dev" "cray-mpich, or mpich" "mpich")
endif()

find_package(OpenMP COMPONENTS CXX)
if(NOT OpenMP_CXX_FOUND)
  shoal_missing("OpenMP" "g++" "gcc" "gcc")
endif()

if(SHOAL_CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    include(CheckLanguage)
    check_language(CUDA)
    if(NOT CMAKE_CUDA_COMPILER)
      shoal_missing("nvcc (CUDA 12.4 or newer)" "cuda-toolkit, from NVIDIA's repository" "cudatoolkit, or cuda" "cuda")
    endif()
  endif()
  set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)  # the one that cuBLASLt uses
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${SHOAL_CCACHE})
  enable_language(CUDA)
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.4)
    shoal_missing("nvcc 12.4 or newer, where ${CMAKE_CUDA_COMPILER_VERSION} is installed," "cuda-toolkit, from NVIDIA's repository"
      "cudatoolkit, or cuda" "cuda")
  endif()
  # CMake 3.25 does not know the language option of newer versions of nvcc.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  find_package(CUDAToolkit REQUIRED)

  # cuDNN, and the headers of its frontend, which `make cudnn` installs. Without them attention is computed by portable kernels.
  find_path(SHOAL_CUDNN_FRONTEND_INCLUDE cudnn_frontend.h HINTS ${PROJECT_SOURCE_DIR}/build-cudnn/include)
  set(cudnn_hints $ENV{CUDNN_ROOT} $ENV{CUDNN_PATH} $ENV{CUDNN_DIR} ${CUDAToolkit_TARGET_DIR} ${CUDAToolkit_LIBRARY_ROOT})
  find_path(SHOAL_CUDNN_INCLUDE cudnn.h HINTS ${cudnn_hints} ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
  find_library(SHOAL_CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${cudnn_hints} ${CUDAToolkit_LIBRARY_DIR}
    PATH_SUFFIXES lib lib64)
  set(cudnn_missing "")
  if(NOT SHOAL_CUDNN_INCLUDE OR NOT SHOAL_CUDNN_LIBRARY)
    list(APPEND cudnn_missing "cuDNN (set CUDNN_ROOT)")
  endif()
  if(NOT SHOAL_CUDNN_FRONTEND_INCLUDE)
    list(APPEND cudnn_missing "the headers of its frontend (make cudnn, or -DSHOAL_CUDNN_FRONTEND_INCLUDE=FOLDER)")
  endif()
  if(cudnn_missing)
    list(JOIN cudnn_missing ", and " cudnn_missing)
    message(NOTICE "Attention will be computed by portable kernels, not by cuDNN. Missing: ${cudnn_missing}")
  else()
    add_library(shoal_cudnn INTERFACE)
    target_include_directories(shoal_cudnn SYSTEM INTERFACE ${SHOAL_CUDNN_FRONTEND_INCLUDE} ${SHOAL_CUDNN_INCLUDE})
    target_compile_definitions(shoal_cudnn INTERFACE NV_CUDNN_FRONTEND_DISABLE_LOGGING)
    target_link_libraries(shoal_cudnn INTERFACE ${SHOAL_CUDNN_LIBRARY} ${CMAKE_DL_LIBS})
  endif()
else()
  find_package(ShoalKokkos 3.4)
  if(NOT ShoalKokkos_FOUND)
    if(ShoalKokkos_VERSION)
      set(too_old ", where ${ShoalKokkos_VERSION} is installed,")
    endif()
    shoal_missing("Kokkos 3.4 or newer${too_old}" "libtrilinos-kokkos-dev" "kokkos" "kokkos")
  endif()
endif()

# A Kokkos with OpenMP for tests of portable kernels: `make kokkos` installs it. Nothing else uses it.
set(kokkos_wheel ${PROJECT_SOURCE_DIR}/build-kokkos/pygenten)
if(SHOAL_TESTS AND EXISTS ${kokkos_wheel}/lib64/libkokkoscore.so)
  add_library(shoal_kokkos_openmp INTERFACE)
  target_include_directories(shoal_kokkos_openmp SYSTEM INTERFACE ${kokkos_wheel}/include/kokkos)
  target_link_libraries(shoal_kokkos_openmp INTERFACE ${kokkos_wheel}/lib64/libkokkoscontainers.so
    ${kokkos_wheel}/lib64/libkokkoscore.so OpenMP::OpenMP_CXX)
endif()

if(SHOAL_KERNELS STREQUAL "cpu")
  # oneDNN's own CMake configuration is not used: Debian's requires OpenCL, which a CPU build does not need.
  find_path(SHOAL_DNNL_INCLUDE oneapi/dnnl/dnnl.hpp HINTS $ENV{DNNLROOT} $ENV{ONEDNN_ROOT} PATH_SUFFIXES include)
  find_library(SHOAL_DNNL_LIBRARY dnnl HINTS $ENV{DNNLROOT} $ENV{ONEDNN_ROOT} PATH_SUFFIXES lib lib64)
  if(NOT SHOAL_DNNL_INCLUDE OR NOT SHOAL_DNNL_LIBRARY)
    shoal_missing("oneDNN" "libdnnl-dev" "onednn" "onednn")
  endif()
  add_library(shoal_dnnl INTERFACE)
  target_include_directories(shoal_dnnl SYSTEM INTERFACE ${SHOAL_DNNL_INCLUDE})
  target_link_libraries(shoal_dnnl INTERFACE ${SHOAL_DNNL_LIBRARY})
endif()

# Debian installs parallel HDF5 beside the serial one, in folders named after the MPI library.
find_path(SHOAL_HDF5_INCLUDE hdf5.h PATH_SUFFIXES include/hdf5/mpich hdf5/mpich include NO_CMAKE_SYSTEM_PATH
  HINTS $ENV{HDF5_ROOT} $ENV{HDF5_DIR} ${HDF5_ROOT} /usr/include/hdf5/mpich)
find_library(SHOAL_HDF5_LIBRARY NAMES hdf5_mpich hdf5 hdf5_parallel
  HINTS $ENV{HDF5_ROOT}/lib $ENV{HDF5_DIR}/lib ${HDF5_ROOT}/lib)
if(NOT SHOAL_HDF5_INCLUDE OR NOT SHOAL_HDF5_LIBRARY)
  shoal_missing("Parallel HDF5" "libhdf5-mpich-dev" "cray-hdf5-parallel, or hdf5-parallel" "hdf5+mpi")
endif()
file(STRINGS ${SHOAL_HDF5_INCLUDE}/H5pubconf.h SHOAL_HDF5_PARALLEL REGEX "define H5_HAVE_PARALLEL 1")
if(NOT SHOAL_HDF5_PARALLEL)
  shoal_missing("Parallel HDF5 (${SHOAL_HDF5_INCLUDE} is serial)" "libhdf5-mpich-dev" "cray-hdf5-parallel" "hdf5+mpi")
endif()
add_library(shoal_hdf5 INTERFACE)
target_include_directories(shoal_hdf5 SYSTEM INTERFACE ${SHOAL_HDF5_INCLUDE})
target_link_libraries(shoal_hdf5 INTERFACE ${SHOAL_HDF5_LIBRARY} MPI::MPI_CXX)

find_package(Boost 1.74 QUIET COMPONENTS program_options)
if(NOT Boost_FOUND)
  shoal_missing("Boost.Program_options" "libboost-program-options-dev" "boost" "boost+program_options")
endif()

find_package(nlohmann_json 3.9 QUIET)
if(NOT nlohmann_json_FOUND)
  shoal_missing("nlohmann-json" "nlohmann-json3-dev" "nlohmann-json" "nlohmann-json")
endif()

find_path(SHOAL_XXHASH_INCLUDE xxhash.h)
if(NOT SHOAL_XXHASH_INCLUDE)
  shoal_missing("xxHash" "libxxhash-dev" "xxhash" "xxhash")
endif()
add_library(shoal_xxhash INTERFACE)
target_include_directories(shoal_xxhash SYSTEM INTERFACE ${SHOAL_XXHASH_INCLUDE})
target_compile_definitions(shoal_xxhash INTERFACE XXH_INLINE_ALL)

# NCCL's header, with CUDA's that it includes. Without it there is no NCCL, and tests of it are skipped.
find_path(SHOAL_NCCL_INCLUDE nccl.h PATH_SUFFIXES include HINTS $ENV{NCCL_ROOT} $ENV{CUDA_HOME} /usr/local/cuda)

if(SHOAL_TESTS)
  find_package(GTest QUIET)
  if(NOT GTest_FOUND)
    shoal_missing("GoogleTest" "libgtest-dev libgmock-dev" "googletest" "googletest")
  endif()
endif()
if(SHOAL_BENCH)
  find_package(benchmark QUIET)
  if(NOT benchmark_FOUND)
    shoal_missing("Google Benchmark" "libbenchmark-dev" "benchmark" "benchmark")
  endif()
endif()
