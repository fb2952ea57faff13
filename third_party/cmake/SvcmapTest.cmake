# svcmap_add_test: declares a test program with one ctest entry. Test discovery would start every program
# after every build, which is slow with sanitizers, and would run each test of a network namespace suite
# in a separate process.
#
#   svcmap_add_test(NAME diff_test SOURCES diff_test.cc LIBS svcmap_proxy LABELS unit [threads]
#                   [TIMEOUT 1200] [SHARDS 2] [SERIAL] [NO_MAIN] [ARGS --gtest_filter=-*Slow*]
#                   [ENVIRONMENT NAME=VALUE])
#
# LABELS, at least one of those below. Each label belongs to suites. `make test` runs the suite release, in which each
# program is built and run once. The suites with sanitizers (.ci/sanitizers.sh) repeat a part of the tests.
#   unit      release, asan  code without kernel access
#   contract  release, asan  one suite on the fake kernel and on the real kernel
#   fuzz      release, asan  fuzz targets with their corpus
#   grpc      release, asan  programs with a gRPC server in the process
#   threads   tsan           additional label for tests of code with several threads
#   netns     release        packets in network namespaces; needs root
#   demo      release        the scenes of `make demo`
#   docs      release        consistency of docs/ with the tests and of deploy/ with the binaries
#   nightly   none           only in `make test-long` and in the nightly workflow, in the folder of release
#   long      none           slow; only in `make test-long`, in the folder of release
# SVCMAP_SUITE is the suite that the build folder belongs to. `all` and ctest contain only the programs of
# this suite. Other programs can be built by name. Without SVCMAP_SUITE, the folder contains all programs.
# Test programs link libnftables (tests/support/nft.h).
# SHARDS: number of parallel processes, each with a part of the tests.
# SERIAL: measures time, so no other test runs in parallel. NO_MAIN: the sources contain main().
# A skipped test counts as failed, so that CI runs every test.
# Each entry in ctest writes its results to test-results/ in the build folder
# (tests/support/test_results.cc). Global properties list the programs with gtest's main():
# SVCMAP_GTEST_LABELS "name=label,label" of each program, and SVCMAP_GTEST_ENTRIES the name of each entry in ctest,
# without nightly and long entries.
#
# `cmake --build ... --target tests-<label>` builds the tests of one label.
include_guard(GLOBAL)

set(SVCMAP_SUITE "" CACHE STRING "Suite: release, asan, tsan, or empty for all tests")
set(SVCMAP_TEST_LABELS unit contract fuzz grpc threads netns demo docs nightly long)
foreach(label unit contract fuzz grpc)
  set(_svcmap_suites_of_${label} release asan)
endforeach()
set(_svcmap_suites_of_threads tsan)
foreach(label netns demo docs nightly long)
  set(_svcmap_suites_of_${label} release)
endforeach()
foreach(label IN LISTS SVCMAP_TEST_LABELS)
  add_custom_target(tests-${label})
endforeach()
add_custom_target(fuzzers)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/test-results)

# Sets `result` to true if this build folder runs tests with `labels`.
function(_svcmap_runs_here result labels)
  set(suites)
  foreach(label IN LISTS labels)
    if(NOT label IN_LIST SVCMAP_TEST_LABELS)
      message(FATAL_ERROR "unknown label '${label}', known are: ${SVCMAP_TEST_LABELS}")
    endif()
    list(APPEND suites ${_svcmap_suites_of_${label}})
  endforeach()
  if(SVCMAP_SUITE STREQUAL "" OR SVCMAP_SUITE IN_LIST suites)
    set(${result} ON PARENT_SCOPE)
  else()
    set(${result} OFF PARENT_SCOPE)
  endif()
endfunction()

# Compiles the sources of `target` without optimization, which halves the time. The tested code is optimized.
function(_svcmap_compile_as_test target)
  if(NOT SVCMAP_SANITIZE AND NOT SVCMAP_FUZZ)
    target_compile_options(${target} PRIVATE -O0 -g0 -U_FORTIFY_SOURCE)
  endif()
endfunction()

# Declares the ctest entry `name` that runs COMMAND and needs `target`, and sets its labels and environment.
#
#   _svcmap_register_test(NAME demo TARGET svcmap-demo LABELS demo COMMAND svcmap-demo
#                         [TIMEOUT 120] [SERIAL] [DIRECTORY dir] [ENVIRONMENT A=1 B=2])
#
# The time limit is for tests that hang: 10 times the usual duration or more. The default is 1200 s.
function(_svcmap_register_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "SERIAL" "NAME;TARGET;TIMEOUT;DIRECTORY"
                        "LABELS;COMMAND;ENVIRONMENT")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_NAME OR NOT arg_TARGET OR NOT arg_LABELS OR NOT arg_COMMAND)
    message(FATAL_ERROR "_svcmap_register_test(${arg_NAME}): NAME, TARGET, LABELS and COMMAND are needed; "
                        "not understood: '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  _svcmap_runs_here(here "${arg_LABELS}")
  foreach(label IN LISTS arg_LABELS)
    add_dependencies(tests-${label} ${arg_TARGET})
  endforeach()
  if(NOT here)
    return()
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 1200)
  endif()
  if(CMAKE_CROSSCOMPILING)
    math(EXPR arg_TIMEOUT "10 * ${arg_TIMEOUT}")  # Emulated.
  endif()
  if(NOT arg_DIRECTORY)
    set(arg_DIRECTORY ${CMAKE_SOURCE_DIR})  # File names in tests are relative to the top directory.
  endif()
  add_test(NAME ${arg_NAME} COMMAND ${arg_COMMAND} WORKING_DIRECTORY ${arg_DIRECTORY})
  set_tests_properties(${arg_NAME} PROPERTIES
    LABELS "${arg_LABELS}"
    TIMEOUT ${arg_TIMEOUT}
    RUN_SERIAL ${arg_SERIAL}
    ENVIRONMENT "SVCMAP_ALLOW_NETNS_SKIP=0;${arg_ENVIRONMENT}"
    FAIL_REGULAR_EXPRESSION "\\[  SKIPPED \\]")
endfunction()

function(svcmap_add_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "SERIAL;NO_MAIN" "NAME;TIMEOUT;SHARDS"
                        "SOURCES;LIBS;LABELS;ARGS;ENVIRONMENT")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_NAME OR NOT arg_SOURCES)
    message(FATAL_ERROR "svcmap_add_test(${arg_NAME}): NAME and SOURCES are needed; "
                        "not understood: '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  _svcmap_runs_here(here "${arg_LABELS}")
  if(here AND NOT nightly IN_LIST arg_LABELS)
    add_executable(${arg_NAME} ${arg_SOURCES})
  else()
    add_executable(${arg_NAME} EXCLUDE_FROM_ALL ${arg_SOURCES})
  endif()
  # Smaller units than those of libraries, because test files use the same short names.
  set_target_properties(${arg_NAME} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests UNITY_BUILD_BATCH_SIZE 16)
  _svcmap_compile_as_test(${arg_NAME})
  target_precompile_headers(${arg_NAME} REUSE_FROM svcmap_test_results)
  if(MOLD)
    target_link_options(${arg_NAME} PRIVATE -fuse-ld=mold)
  endif()
  list(APPEND arg_LIBS svcmap_test_nft_library)
  if(arg_NO_MAIN)
    target_link_libraries(${arg_NAME} PRIVATE ${arg_LIBS} svcmap_test_results GTest::gmock)
  else()
    target_link_libraries(${arg_NAME} PRIVATE ${arg_LIBS} svcmap_test_results GTest::gmock_main)
    list(JOIN arg_LABELS "," labels)
    set_property(GLOBAL APPEND PROPERTY SVCMAP_GTEST_LABELS "${arg_NAME}=${labels}")
  endif()
  if(NOT arg_SHARDS)
    set(arg_SHARDS 1)
  endif()
  set(serial)
  if(arg_SERIAL)
    set(serial SERIAL)
  endif()
  foreach(shard RANGE 1 ${arg_SHARDS})
    set(name ${arg_NAME})
    if(arg_SHARDS GREATER 1)
      string(APPEND name ".${shard}")
    endif()
    math(EXPR index "${shard} - 1")
    _svcmap_register_test(NAME ${name} TARGET ${arg_NAME} LABELS ${arg_LABELS} TIMEOUT ${arg_TIMEOUT} ${serial}
      COMMAND ${arg_NAME} ${arg_ARGS}
      ENVIRONMENT GTEST_TOTAL_SHARDS=${arg_SHARDS} GTEST_SHARD_INDEX=${index}
        SVCMAP_TEST_RESULTS=${CMAKE_BINARY_DIR}/test-results/${name} ${arg_ENVIRONMENT})
    if(NOT arg_NO_MAIN AND NOT long IN_LIST arg_LABELS AND NOT nightly IN_LIST arg_LABELS)
      set_property(GLOBAL APPEND PROPERTY SVCMAP_GTEST_ENTRIES ${name})
    endif()
  endforeach()
endfunction()

# A fuzz target: SOURCES define LLVMFuzzerTestOneInput. With SVCMAP_FUZZ (clang) it becomes a
# libFuzzer program in build/fuzz/fuzzers/; otherwise a test that runs it with the directory CORPUS.
#
#   svcmap_add_fuzzer(NAME ack_fuzzer SOURCES ack_fuzzer.cc LIBS svcmap_nft CORPUS corpus/ack)
function(svcmap_add_fuzzer)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;CORPUS" "SOURCES;LIBS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_NAME OR NOT arg_SOURCES OR NOT arg_CORPUS)
    message(FATAL_ERROR "svcmap_add_fuzzer(${arg_NAME}): NAME, SOURCES and CORPUS are needed; "
                        "not understood: '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  get_filename_component(corpus ${arg_CORPUS} ABSOLUTE)
  if(NOT IS_DIRECTORY ${corpus})
    message(FATAL_ERROR "${arg_NAME}: the corpus folder ${corpus} is missing")
  endif()
  _svcmap_runs_here(here fuzz)
  if(here)
    add_executable(${arg_NAME} ${arg_SOURCES})
  else()
    add_executable(${arg_NAME} EXCLUDE_FROM_ALL ${arg_SOURCES})
  endif()
  target_link_libraries(${arg_NAME} PRIVATE ${arg_LIBS})
  if(SVCMAP_FUZZ)
    set_target_properties(${arg_NAME} PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzzers)
    target_link_options(${arg_NAME} PRIVATE -fsanitize=fuzzer)
    add_dependencies(fuzzers ${arg_NAME})
    # .ci/fuzz.sh finds the corpus here.
    file(WRITE ${CMAKE_BINARY_DIR}/fuzzers/${arg_NAME}.corpus "${corpus}\n")
    return()
  endif()
  target_sources(${arg_NAME} PRIVATE ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/fuzz_replay_main.cc)
  _svcmap_compile_as_test(${arg_NAME})
  set_target_properties(${arg_NAME} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  _svcmap_register_test(NAME ${arg_NAME} TARGET ${arg_NAME} LABELS fuzz COMMAND ${arg_NAME} ${corpus})
endfunction()
