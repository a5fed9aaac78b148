# Makes the target shoal_kokkos: from an installation of Kokkos 4 or newer, otherwise from Debian's Kokkos 3.4. The CMake
# configuration of Debian's package names a directory that does not exist, so its files are searched for here.
#
# A Kokkos whose default is a GPU would launch a processor's kernels there, on memory that a GPU cannot reach, and have the whole
# program compiled by nvcc or hipcc.
function(shoal_refuse_kokkos_for_gpus where enabled)
  set(for_gpus ${enabled})
  list(TRANSFORM for_gpus TOUPPER)
  list(FILTER for_gpus INCLUDE REGEX "^(CUDA|HIP|SYCL|OPENMPTARGET|OPENACC)$")
  if(for_gpus)
    list(JOIN for_gpus ", " for_gpus)
    message(FATAL_ERROR
      "The Kokkos in ${where} was built for GPUs (${for_gpus}). A program for processors would launch its kernels there.\n"
      "  Take a Kokkos for processors: -DKokkos_ROOT=FOLDER names it; spack install kokkos~cuda~rocm~sycl\n"
      "  Debian's, if it is installed: -DCMAKE_DISABLE_FIND_PACKAGE_Kokkos=TRUE\n"
      "  The program for NVIDIA's GPUs needs no Kokkos: -DSHOAL_KERNELS=cuda (make cuda)")
  endif()
endfunction()

find_package(Kokkos 4 QUIET CONFIG)
if(Kokkos_FOUND)
  shoal_refuse_kokkos_for_gpus("${Kokkos_DIR}" "${Kokkos_DEVICES}")
  add_library(shoal_kokkos INTERFACE)
  target_link_libraries(shoal_kokkos INTERFACE Kokkos::kokkos)
  set(ShoalKokkos_VERSION ${Kokkos_VERSION})
else()
  find_path(SHOAL_KOKKOS_INCLUDE Kokkos_Core.hpp PATH_SUFFIXES trilinos kokkos)
  find_library(SHOAL_KOKKOS_CORE NAMES trilinos_kokkoscore kokkoscore)
  find_library(SHOAL_KOKKOS_CONTAINERS NAMES trilinos_kokkoscontainers kokkoscontainers)
  if(SHOAL_KOKKOS_INCLUDE AND SHOAL_KOKKOS_CORE AND SHOAL_KOKKOS_CONTAINERS)
    file(STRINGS ${SHOAL_KOKKOS_INCLUDE}/KokkosCore_config.h version_line REGEX "define KOKKOS_VERSION ")
    string(REGEX MATCH "[0-9]+" version_number "${version_line}")
    math(EXPR major "${version_number} / 10000")
    math(EXPR minor "${version_number} / 100 % 100")
    math(EXPR patch "${version_number} % 100")
    set(ShoalKokkos_VERSION ${major}.${minor}.${patch})
    file(STRINGS ${SHOAL_KOKKOS_INCLUDE}/KokkosCore_config.h enabled REGEX "^#define KOKKOS_ENABLE_[A-Z]+ *$")
    list(TRANSFORM enabled REPLACE "^#define KOKKOS_ENABLE_([A-Z]+) *$" "\\1")
    shoal_refuse_kokkos_for_gpus("${SHOAL_KOKKOS_INCLUDE}" "${enabled}")
    add_library(shoal_kokkos INTERFACE)
    target_include_directories(shoal_kokkos SYSTEM INTERFACE ${SHOAL_KOKKOS_INCLUDE})
    target_link_libraries(shoal_kokkos INTERFACE ${SHOAL_KOKKOS_CONTAINERS} ${SHOAL_KOKKOS_CORE} dl)
  endif()
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ShoalKokkos REQUIRED_VARS ShoalKokkos_VERSION VERSION_VAR ShoalKokkos_VERSION)
