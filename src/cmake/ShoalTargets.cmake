# With SHOAL_UNITY eight sources of the target are compiled as one, which takes less than half of the time. So its sources do not
# use one name for different things. Without it each source has to compile by itself, with all warnings.
function(shoal_unity target)
  if(SHOAL_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON)
    # A function's variable may have the name of what another source has for itself. And GCC takes a source that is compiled
    # together with others for a header.
    target_compile_options(${target} PRIVATE -Wno-shadow $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

# shoal_library(comm SOURCES a.cpp b.cpp LINK shoal_base PRIVATE_LINK MPI::MPI_CXX) makes the static library shoal_comm.
function(shoal_library folder)
  cmake_parse_arguments(LIB "" "" "SOURCES;LINK;PRIVATE_LINK" ${ARGN})
  add_library(shoal_${folder} STATIC ${LIB_SOURCES})
  shoal_unity(shoal_${folder})
  target_link_libraries(shoal_${folder} PUBLIC shoal_settings ${LIB_LINK} PRIVATE ${LIB_PRIVATE_LINK})
endfunction()

# Saves a quarter of the compilation time of a folder that leaves all computation to others.
function(shoal_optimize_little target)
  if(SHOAL_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
  else()
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
endfunction()

# shoal_program_on(portable PROGRAM) links the objects of PROGRAM with other kernels (kernels/CMakeLists.txt): PROGRAM_portable,
# or [NAME program].
function(shoal_program_on kernels program)
  cmake_parse_arguments(P "" "NAME" "" ${ARGN})
  if(NOT P_NAME)
    set(P_NAME ${program}_${kernels})
  endif()
  add_executable(${P_NAME} $<TARGET_OBJECTS:${program}>)
  target_link_libraries(${P_NAME} PRIVATE $<TARGET_PROPERTY:${program},LINK_LIBRARIES>)
  set_target_properties(${P_NAME} PROPERTIES SHOAL_KERNELS ${kernels})
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  if(TARGET ${folder}_tests)
    add_dependencies(${folder}_tests ${P_NAME})
  endif()
endfunction()
