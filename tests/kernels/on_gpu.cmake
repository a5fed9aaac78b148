# The suite of the public functions on a GPU. Left out, because their claims are those of processors:
# - all of peak: it measures instructions of processors; a GPU's peak comes from data sheets;
# - matmul: fp16 products as rounded float products, and their small workspace (tensor cores multiply fp16 themselves, and
#   cuBLASLt has one workspace for all products); events of kernels in the trace and messages that move while a product is
#   computed (kernels on a GPU do not run when they are launched).
set(on_gpu ${public_tests})
list(REMOVE_ITEM on_gpu peak)
set(left_out_of_matmul MatmulF16.WorkspaceIsBounded MatmulF16.IsTheProductOfTheWidenedMatricesRoundedOnce
  MatmulTrace.RecordsTheProduct MatmulLaunches.LetCommunicationMove)
list(JOIN left_out_of_matmul ":" left_out_of_matmul)
foreach(kernel ${on_gpu})
  set(arguments "")
  if(left_out_of_${kernel})
    set(arguments ARGUMENTS --gtest_filter=-${left_out_of_${kernel}})
  endif()
  shoal_test(${kernel}_test.cpp LINK shoal_kernels shoal_managed_memory TIMEOUT 600 ${arguments})
endforeach()
target_link_libraries(kernels_quantize_codes_test PRIVATE shoal_hdf5 nlohmann_json::nlohmann_json)

# What same_bits.sh compares with the bits of processors (tests/gpu/run_all.sh).
add_executable(kernels_bits bits.cpp)
target_link_libraries(kernels_bits PRIVATE shoal_kernels shoal_managed_memory shoal_test_device shoal_settings GTest::gtest)
target_include_directories(kernels_bits PRIVATE ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR})
add_dependencies(kernels_tests kernels_bits)
