# Test programs, and CTest entries for them. Tests may include files of tests/ and the private headers of src/ and kernels/.
#
# All tests of a folder that link the same kernels are one program, FOLDER_unit_tests (one process) or FOLDER_mpi_tests (several
# ranks), with a CTest entry for each file: `zero_unit_tests --file=partition_test`. With SHOAL_UNITY eight files are compiled as
# one, so what a file keeps to itself stands in a namespace named after it: `namespace of_partition_test {`. No two files of a
# program have a suite of one name (tests/support/one_file.hpp).
#
# A file that replaces functions of other libraries, defines macros, or starts the kernels in its own way, is a program ALONE:
# FOLDER_NAME.

# Adds a source to a program of the folder, which it makes first if it has to, and to the target FOLDER_tests. Notes for other
# functions which program has the file, and with which arguments.
function(shoal_test_source source main kind)
  cmake_parse_arguments(T "ALONE" "GROUP;KERNELS;TIMEOUT" "LINK;LABELS;RANKS;ARGUMENTS" ${ARGN})
  if(NOT T_GROUP)
    set(T_GROUP ${kind})
  endif()
  get_filename_component(name ${source} NAME_WE)
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  if(T_ALONE OR SHOAL_CUDA)  # tests/gpu/ names programs for GPUs
    set(program ${folder}_${name})
    set(argument "")
  else()
    set(program ${folder}_${T_GROUP}_tests)
    set(argument --file=${name})
    file(STRINGS ${source} unnamed REGEX "^namespace {")
    if(unnamed)
      message(FATAL_ERROR "tests/${folder}/${source} has an anonymous namespace, but is compiled together with other tests: write "
        "`namespace of_${name} {`, or add it as ALONE")
    endif()
  endif()
  set_property(GLOBAL PROPERTY SHOAL_PROGRAM_OF_${folder}/${name} ${program} ${argument})
  if(NOT TARGET ${folder}_tests)
    add_custom_target(${folder}_tests)
  endif()
  if(TARGET ${program})
    target_sources(${program} PRIVATE ${source})
    target_link_libraries(${program} PRIVATE ${T_LINK})
    return()
  endif()
  add_executable(${program} ${source})
  add_dependencies(${folder}_tests ${program})
  target_link_libraries(${program} PRIVATE ${T_LINK} ${main} shoal_settings GTest::gmock GTest::gtest)
  target_include_directories(${program} PRIVATE ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
  set_target_properties(${program} PROPERTIES SHOAL_KERNELS "${T_KERNELS}")
  if(NOT T_ALONE)
    shoal_unity(${program})
  endif()
  set(optimization O1)  # takes two thirds of the compilation time of -O3
  if(SHOAL_SANITIZE AND NOT folder STREQUAL kernels)  # most other tests compute little themselves
    set(optimization O0)
  endif()
  target_precompile_headers(${program} REUSE_FROM shoal_test_headers_${optimization})
  target_link_libraries(${program} PRIVATE shoal_test_options_${optimization})
endfunction()

# shoal_command_of(partition_test command): the command of a test of this folder, for a CTest entry: program and arguments.
function(shoal_command_of name result)
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  get_property(command GLOBAL PROPERTY SHOAL_PROGRAM_OF_${folder}/${name})
  list(POP_FRONT command program)
  set(${result} $<TARGET_FILE:${program}> ${command} PARENT_SCOPE)
endfunction()

# shoal_test(philox_test.cpp LINK shoal_base [GROUP unit] [KERNELS simulated] [ALONE] [LABELS long] [TIMEOUT 60]
# [ARGUMENTS --gtest_filter=...]) adds a test of one process, without MPI. GROUP: which program of the folder has it; all of them
# are linked with KERNELS.
function(shoal_test source)
  cmake_parse_arguments(T "ALONE" "TIMEOUT;GROUP;KERNELS" "LINK;LABELS;ARGUMENTS" ${ARGN})
  get_filename_component(name ${source} NAME_WE)
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  shoal_test_source(${source} shoal_test_main unit ${ARGN})
  shoal_command_of(${name} command)
  shoal_test_properties(${folder}/${name} COMMAND ${command} ${T_ARGUMENTS} TIMEOUT ${T_TIMEOUT} LABELS ${folder} ${T_LABELS})
endfunction()

# shoal_mpi_test(collectives_test.cpp RANKS 1 2 4 LINK shoal_comm) adds one test per number of ranks. CI has two cores, so ranks
# sleep while they wait, and each uses one thread.
function(shoal_mpi_test source)
  cmake_parse_arguments(T "ALONE" "TIMEOUT;GROUP;KERNELS" "LINK;LABELS;RANKS" ${ARGN})
  get_filename_component(name ${source} NAME_WE)
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  shoal_test_source(${source} shoal_test_mpi_main mpi ${ARGN})
  shoal_command_of(${name} command)
  foreach(ranks ${T_RANKS})
    shoal_test_properties(${folder}/${name}/${ranks} COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} ${command}
      TIMEOUT ${T_TIMEOUT} LABELS ${folder} mpi ${T_LABELS} PROCESSORS ${ranks})
  endforeach()
endfunction()

# shoal_tests_on(portable gradient_test generate_test) links the program of these tests again, with other kernels, and adds
# an entry for each: model/gradient_test@portable. [ARGUMENTS --gtest_filter=...] [LABELS long] [TIMEOUT 60] [PROCESSORS 2]
# [BY_TURNS]: a third of the cases in each run of CI (tests/support/by_turns.sh).
function(shoal_tests_on kernels)
  cmake_parse_arguments(T "BY_TURNS" "TIMEOUT;PROCESSORS" "ENVIRONMENT;ARGUMENTS;LABELS" ${ARGN})
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  foreach(name ${T_UNPARSED_ARGUMENTS})
    get_property(command GLOBAL PROPERTY SHOAL_PROGRAM_OF_${folder}/${name})
    list(POP_FRONT command program)
    if(NOT TARGET ${program}_${kernels})
      shoal_program_on(${kernels} ${program})
    endif()
    set(turns "")
    if(T_BY_TURNS)
      set(turns ${PROJECT_SOURCE_DIR}/tests/support/by_turns.sh)
    endif()
    shoal_test_properties(${folder}/${name}@${kernels} TIMEOUT ${T_TIMEOUT} PROCESSORS ${T_PROCESSORS} LABELS ${folder} ${T_LABELS}
      COMMAND ${CMAKE_COMMAND} -E env ${T_ENVIRONMENT} ${turns} $<TARGET_FILE:${program}_${kernels}> ${command} ${T_ARGUMENTS})
  endforeach()
endfunction()

# shoal_nccl_test(tree_reduce_test RANKS 2 4 [VECTORS] [LEFT_OUT Suite.Test]) links the objects of the folder's tests of several
# ranks again, with the simulated device and the double of NCCL (tests/support/messages.hpp), and adds one test per number of
# ranks: comm/tree_reduce_test@nccl/2. VECTORS: what the test sends lies in its vectors. LEFT_OUT: what NCCL cannot do.
function(shoal_nccl_test name)
  cmake_parse_arguments(T "VECTORS" "" "RANKS;LEFT_OUT" ${ARGN})
  if(NOT TARGET shoal_nccl_double)  # comm/nccl_test says why
    return()
  endif()
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  set(program ${folder}_mpi_tests)
  if(NOT TARGET ${program}_nccl)
    shoal_program_on(simulated ${program} NAME ${program}_nccl)
    target_link_libraries(${program}_nccl PRIVATE shoal_kernels)
    set_target_properties(${program}_nccl PROPERTIES SHOAL_TEST_MESSAGES nccl)
  endif()
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
      COMMAND ${CMAKE_COMMAND} -E env ${environment} ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks}
        $<TARGET_FILE:${program}_nccl> --file=${name} ${filter}
      LABELS ${folder} mpi PROCESSORS ${ranks})
  endforeach()
endfunction()

# shoal_limited_tests(matmul_test peak_test [BY_TURNS] [AVX512_ARGUMENTS --gtest_filter=...]) adds tests of one process once more for each
# kind of processor with fewer instructions: kernels/matmul_test@AVX2. AVX512_ARGUMENTS: arguments where the limit has AVX-512.
function(shoal_limited_tests)
  cmake_parse_arguments(T "BY_TURNS" "" "AVX512_ARGUMENTS" ${ARGN})
  set(turns "")
  if(T_BY_TURNS)
    set(turns ${PROJECT_SOURCE_DIR}/tests/support/by_turns.sh)
  endif()
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  foreach(limit AVX2 AVX512_CORE AVX512_CORE_BF16)
    set(arguments ${T_AVX512_ARGUMENTS})
    if(limit STREQUAL "AVX2")
      set(arguments "")
    endif()
    foreach(name ${T_UNPARSED_ARGUMENTS})
      shoal_command_of(${name} command)
      shoal_test_properties(${folder}/${name}@${limit} LABELS ${folder}
        COMMAND ${PROJECT_SOURCE_DIR}/tests/support/limited.sh ${limit} ${turns} ${command} ${arguments})
    endforeach()
  endforeach()
endfunction()

# shoal_run_test(stages_test [FILE stages_test] [PYTHON python3] [ARGUMENTS Suite.test] [ENVIRONMENT NAME=value] [LABELS long]
# [TIMEOUT 60] [PROCESSORS 2]) adds whole runs of the program, which a script in Python starts as a user does: FILE.py of this
# folder, by default the one of the test's name. They need only Python's standard library, except app/hugging_face_test.
function(shoal_run_test name)
  cmake_parse_arguments(T "" "FILE;PYTHON;TIMEOUT;PROCESSORS" "ARGUMENTS;ENVIRONMENT;LABELS" ${ARGN})
  if(NOT T_FILE)
    set(T_FILE ${name})
  endif()
  if(NOT T_PYTHON)
    set(T_PYTHON ${Python3_EXECUTABLE})
  endif()
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  if(NOT TARGET ${folder}_tests)
    add_custom_target(${folder}_tests)
  endif()
  shoal_test_properties(${folder}/${name} COMMAND ${T_PYTHON} -B ${CMAKE_CURRENT_SOURCE_DIR}/${T_FILE}.py ${T_ARGUMENTS}
    TIMEOUT ${T_TIMEOUT} PROCESSORS ${T_PROCESSORS} LABELS ${folder} ${T_LABELS})
  set_property(TEST ${folder}/${name} APPEND PROPERTY ENVIRONMENT ${T_ENVIRONMENT})
endfunction()

# shoal_run_tests_on_portable(stream_test) adds whole runs once more, on portable kernels: promises/stream_test@portable. Under
# sanitizers none but those of EVEN_SANITIZED, whose models are small: with them a portable product takes a hundred times as long,
# since each of its multiply-adds is checked, and a step of the quickstart a minute.
function(shoal_run_tests_on_portable)
  cmake_parse_arguments(T "" "" "EVEN_SANITIZED" ${ARGN})
  if(NOT SHOAL_KERNELS STREQUAL "cpu")
    return()
  endif()
  set(names ${T_EVEN_SANITIZED})
  if(NOT SHOAL_SANITIZE)
    list(APPEND names ${T_UNPARSED_ARGUMENTS})
  endif()
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  foreach(name ${names})
    shoal_test_properties(${folder}/${name}@portable TIMEOUT 400 PROCESSORS 2 LABELS ${folder}
      COMMAND ${CMAKE_COMMAND} -E env SHOAL_BINARY=$<TARGET_FILE:shoal_portable>
        ${test_python} -B ${CMAKE_CURRENT_SOURCE_DIR}/${name}.py)
  endforeach()
endfunction()

function(shoal_test_properties name)
  cmake_parse_arguments(T "" "TIMEOUT;PROCESSORS" "COMMAND;LABELS" ${ARGN})
  add_test(NAME ${name} COMMAND ${PROJECT_SOURCE_DIR}/tests/support/measured.sh ${name} ${T_COMMAND})
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
