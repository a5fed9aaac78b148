# shoal_library(comm SOURCES a.cpp b.cpp LINK shoal_base PRIVATE_LINK MPI::MPI_CXX) makes the static library shoal_comm.
#
# With sanitizers, several sources are compiled as one, which takes a third of the time, unless the library is APART, because
# its sources use one name for different things. Elsewhere each source has to compile by itself.
function(shoal_library folder)
  cmake_parse_arguments(LIB "APART" "" "SOURCES;LINK;PRIVATE_LINK" ${ARGN})
  add_library(shoal_${folder} STATIC ${LIB_SOURCES})
  if(SHOAL_SANITIZE AND NOT LIB_APART)
    set_target_properties(shoal_${folder} PROPERTIES UNITY_BUILD ON)
  endif()
  target_link_libraries(shoal_${folder} PUBLIC shoal_settings ${LIB_LINK} PRIVATE ${LIB_PRIVATE_LINK})
endfunction()

# Saves a quarter of the compilation time of a folder that leaves all computation to others.
function(shoal_optimize_little target)
  if(SHOAL_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON)
  else()
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
endfunction()

# Makes the test program FOLDER_NAME, and adds it to the target FOLDER_tests. Tests may include files of tests/ and the private
# headers of src/ and kernels/.
function(shoal_test_program program source)
  add_executable(${program} ${source})
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  if(NOT TARGET ${folder}_tests)
    add_custom_target(${folder}_tests)
  endif()
  add_dependencies(${folder}_tests ${program})
  target_link_libraries(${program} PRIVATE ${ARGN} shoal_settings GTest::gmock GTest::gtest)
  target_include_directories(${program} PRIVATE ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
  set(optimization O1)  # takes two thirds of the compilation time of -O3
  if(SHOAL_SANITIZE AND NOT folder STREQUAL kernels)  # most other tests compute little themselves
    set(optimization O0)
  endif()
  target_precompile_headers(${program} REUSE_FROM shoal_test_headers_${optimization})
  target_link_libraries(${program} PRIVATE shoal_test_options_${optimization})
endfunction()

# shoal_program_on(portable PROGRAM) links the objects of PROGRAM with other kernels (kernels/CMakeLists.txt): PROGRAM_portable.
function(shoal_program_on kernels program)
  add_executable(${program}_${kernels} $<TARGET_OBJECTS:${program}>)
  target_link_libraries(${program}_${kernels} PRIVATE $<TARGET_PROPERTY:${program},LINK_LIBRARIES>)
  set_target_properties(${program}_${kernels} PROPERTIES SHOAL_KERNELS ${kernels})
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  if(TARGET ${folder}_tests)
    add_dependencies(${folder}_tests ${program}_${kernels})
  endif()
endfunction()

# shoal_test(philox_test.cpp LINK shoal_base [LABELS long] [TIMEOUT 60] [ARGUMENTS --gtest_filter=...]) adds a test of one
# process, without MPI.
function(shoal_test source)
  cmake_parse_arguments(T "" "TIMEOUT" "LINK;LABELS;ARGUMENTS" ${ARGN})
  get_filename_component(name ${source} NAME_WE)
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  shoal_test_program(${folder}_${name} ${source} ${T_LINK} shoal_test_main)
  shoal_test_properties(${folder}/${name} COMMAND ${folder}_${name} ${T_ARGUMENTS} TIMEOUT ${T_TIMEOUT} LABELS ${folder} ${T_LABELS})
endfunction()

# shoal_mpi_test(collectives_test.cpp RANKS 1 2 4 LINK shoal_comm) adds one test per number of ranks. CI has two cores, so ranks
# sleep while they wait, and each uses one thread.
function(shoal_mpi_test source)
  cmake_parse_arguments(T "" "TIMEOUT" "LINK;LABELS;RANKS" ${ARGN})
  get_filename_component(name ${source} NAME_WE)
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  shoal_test_program(${folder}_${name} ${source} ${T_LINK} shoal_test_mpi_main)
  foreach(ranks ${T_RANKS})
    shoal_test_properties(${folder}/${name}/${ranks}
      COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} $<TARGET_FILE:${folder}_${name}>
      TIMEOUT ${T_TIMEOUT} LABELS ${folder} mpi ${T_LABELS} PROCESSORS ${ranks})
  endforeach()
endfunction()

# shoal_nccl_test(tree_reduce_test RANKS 2 4 [VECTORS] [LEFT_OUT Suite.Test]) links the objects of a test of several ranks again,
# with the simulated device and the double of NCCL (tests/support/messages.hpp), and adds one test per number of ranks:
# comm/tree_reduce_test@nccl/2. VECTORS: what the test sends lies in its vectors. LEFT_OUT: what NCCL cannot do.
function(shoal_nccl_test name)
  cmake_parse_arguments(T "VECTORS" "" "RANKS;LEFT_OUT" ${ARGN})
  if(NOT TARGET shoal_nccl_double)  # comm/nccl_test says why
    return()
  endif()
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  set(program ${folder}_${name})
  add_executable(${program}_nccl $<TARGET_OBJECTS:${program}>)
  target_link_libraries(${program}_nccl PRIVATE $<TARGET_PROPERTY:${program},LINK_LIBRARIES> shoal_kernels)
  set_target_properties(${program}_nccl PROPERTIES SHOAL_KERNELS simulated SHOAL_TEST_MESSAGES nccl)
  add_dependencies(${folder}_tests ${program}_nccl)
  set(environment SHOAL_SIMULATE=in-order)
  if(T_VECTORS)
    list(APPEND environment SHOAL_TEST_VECTORS=1)
  endif()
  set(filter "")
  if(T_LEFT_OUT)
    list(JOIN T_LEFT_OUT ":" filter)
    set(filter --gtest_filter=-${filter})
  endif()
  foreach(ranks ${T_RANKS})
    shoal_test_properties(${folder}/${name}@nccl/${ranks}
      COMMAND ${CMAKE_COMMAND} -E env ${environment}
        ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} $<TARGET_FILE:${program}_nccl> ${filter}
      LABELS ${folder} mpi PROCESSORS ${ranks})
  endforeach()
endfunction()

# shoal_limited_tests(matmul_test peak_test [AVX512_ARGUMENTS --gtest_filter=...]) adds tests of one process once more for each
# kind of processor with fewer instructions: kernels/matmul_test@AVX2. AVX512_ARGUMENTS: arguments where the limit has AVX-512.
function(shoal_limited_tests)
  cmake_parse_arguments(T "" "" "AVX512_ARGUMENTS" ${ARGN})
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  foreach(limit AVX2 AVX512_CORE AVX512_CORE_BF16)
    set(arguments ${T_AVX512_ARGUMENTS})
    if(limit STREQUAL "AVX2")
      set(arguments "")
    endif()
    foreach(name ${T_UNPARSED_ARGUMENTS})
      shoal_test_properties(${folder}/${name}@${limit} LABELS ${folder}
        COMMAND ${PROJECT_SOURCE_DIR}/tests/support/limited.sh ${limit} $<TARGET_FILE:${folder}_${name}> ${arguments})
    endforeach()
  endforeach()
endfunction()

function(shoal_test_properties name)
  cmake_parse_arguments(T "" "TIMEOUT;PROCESSORS" "COMMAND;LABELS" ${ARGN})
  add_test(NAME ${name} COMMAND ${T_COMMAND})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 120)
  endif()
  if(SHOAL_SANITIZE)  # several times slower
    math(EXPR T_TIMEOUT "3 * ${T_TIMEOUT}")
  endif()
  if(NOT T_PROCESSORS)
    set(T_PROCESSORS 1)
  elseif(T_PROCESSORS GREATER 2)
    set(T_PROCESSORS 2)
  endif()
  # COST: long tests begin first, so that the last ones to end do not leave cores idle.
  set_tests_properties(${name} PROPERTIES TIMEOUT ${T_TIMEOUT} COST ${T_TIMEOUT} PROCESSORS ${T_PROCESSORS} LABELS "${T_LABELS}"
    SKIP_RETURN_CODE 77 ENVIRONMENT
    "OMP_NUM_THREADS=1;SHOAL_COMM_WAIT=sleep;SHOAL_BINARY=$<TARGET_FILE:shoal>;SHOAL_SOURCE=${PROJECT_SOURCE_DIR};SHOAL_MPIEXEC=${MPIEXEC_EXECUTABLE}")
endfunction()
