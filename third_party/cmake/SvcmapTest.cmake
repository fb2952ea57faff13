# svcmap_add_test: declares a test program with one ctest entry. Test discovery would start every program
# after every build, which is slow with sanitizers, and would run each test of a network namespace suite
# in a separate process.
#
#   svcmap_add_test(NAME diff_test SOURCES diff_test.cc LIBS svcmap_proxy LABELS unit [threads]
#                   [TIMEOUT 120] [SHARDS 2] [SERIAL] [NO_MAIN] [ARGS --gtest_filter=-*Slow*])
#
# LABELS, at least one of those below:
#   unit      code without kernel access
#   grpc      programs that compile gRPC; without sanitizers, which would double the build time
#   contract  one suite on the fake kernel and on the real kernel
#   scenario  scenarios on the fake kernel
#   netns     packets in network namespaces; needs root
#   demo      the scenes of `make demo`
#   fuzz      fuzz targets with their corpus
#   docs      consistency of docs/ with the tests and of deploy/ with the binaries
#   threads   additional label for tests that also run with tsan
#   long      only in `make test-long`
# Test code is compiled without optimization, which halves the build time. The tested code is optimized.
# With sanitizers, test code is checked for memory errors only, because the check for undefined behaviour
# doubles its compile time.
# Test programs link libnftables (tests/support/nft.h).
# SHARDS: number of parallel processes, each with a part of the tests.
# SERIAL: measures time, so no other test runs in parallel. NO_MAIN: the sources contain main().
# A skipped test counts as failed, so that CI runs every test.
# Each entry in ctest writes its results to test-results/ in the build folder
# (tests/support/test_results.cc). Global properties list the programs with gtest's main():
# SVCMAP_GTEST_PROGRAMS their names, SVCMAP_GTEST_LABELS "name=label,label" of each, and
# SVCMAP_GTEST_ENTRIES their entries in ctest, without those labelled long.
#
# `cmake --build ... --target tests-<label>` builds the tests of one label.
include_guard(GLOBAL)

set(SVCMAP_TEST_LABELS unit grpc contract scenario netns demo fuzz docs threads long)
foreach(label IN LISTS SVCMAP_TEST_LABELS)
  add_custom_target(tests-${label})
endforeach()
add_custom_target(fuzzers)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/test-results)

# Sets labels and environment of the ctest entry `name` that runs `target`. Further variables may follow.
function(_svcmap_register_test name target labels timeout serial)
  if(NOT labels)
    message(FATAL_ERROR "${name} has no label of: ${SVCMAP_TEST_LABELS}")
  endif()
  foreach(label IN LISTS labels)
    if(NOT label IN_LIST SVCMAP_TEST_LABELS)
      message(FATAL_ERROR "${name}: unknown label '${label}', known are: ${SVCMAP_TEST_LABELS}")
    endif()
    add_dependencies(tests-${label} ${target})
  endforeach()
  if(NOT timeout)
    set(timeout 600)
  endif()
  if(CMAKE_CROSSCOMPILING)
    math(EXPR timeout "10 * ${timeout}")  # Emulated.
  endif()
  set_tests_properties(${name} PROPERTIES
    LABELS "${labels}"
    TIMEOUT ${timeout}
    RUN_SERIAL ${serial}
    ENVIRONMENT "SVCMAP_ALLOW_NETNS_SKIP=0;${ARGN}"
    FAIL_REGULAR_EXPRESSION "\\[  SKIPPED \\]")
endfunction()

function(svcmap_add_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "SERIAL;NO_MAIN" "NAME;TIMEOUT;SHARDS" "SOURCES;LIBS;LABELS;ARGS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_NAME OR NOT arg_SOURCES)
    message(FATAL_ERROR "svcmap_add_test(${arg_NAME}): NAME and SOURCES are needed; "
                        "not understood: '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  add_executable(${arg_NAME} ${arg_SOURCES})
  set_target_properties(${arg_NAME} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if(NOT SVCMAP_SANITIZE)
    target_compile_options(${arg_NAME} PRIVATE -O0 -U_FORTIFY_SOURCE)
  elseif(SVCMAP_SANITIZE MATCHES undefined)
    target_compile_options(${arg_NAME} PRIVATE -fno-sanitize=undefined)
  endif()
  if(MOLD)
    target_link_options(${arg_NAME} PRIVATE -fuse-ld=mold)
  endif()
  list(APPEND arg_LIBS svcmap_test_nft_library)
  if(arg_NO_MAIN)
    target_link_libraries(${arg_NAME} PRIVATE ${arg_LIBS} svcmap_test_results GTest::gmock)
  else()
    target_link_libraries(${arg_NAME} PRIVATE ${arg_LIBS} svcmap_test_results GTest::gmock_main)
    set_property(GLOBAL APPEND PROPERTY SVCMAP_GTEST_PROGRAMS ${arg_NAME})
    list(JOIN arg_LABELS "," labels)
    set_property(GLOBAL APPEND PROPERTY SVCMAP_GTEST_LABELS "${arg_NAME}=${labels}")
  endif()
  # File names in tests are relative to the top directory.
  if(NOT arg_SHARDS)
    set(arg_SHARDS 1)
  endif()
  foreach(shard RANGE 1 ${arg_SHARDS})
    set(name ${arg_NAME})
    if(arg_SHARDS GREATER 1)
      string(APPEND name ".${shard}")
    endif()
    math(EXPR index "${shard} - 1")
    add_test(NAME ${name} COMMAND ${arg_NAME} ${arg_ARGS} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    _svcmap_register_test(${name} ${arg_NAME} "${arg_LABELS}" "${arg_TIMEOUT}" ${arg_SERIAL}
      GTEST_TOTAL_SHARDS=${arg_SHARDS} GTEST_SHARD_INDEX=${index}
      SVCMAP_TEST_RESULTS=${CMAKE_BINARY_DIR}/test-results/${name})
    if(NOT arg_NO_MAIN AND NOT long IN_LIST arg_LABELS)
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
  add_executable(${arg_NAME} ${arg_SOURCES})
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
  set_target_properties(${arg_NAME} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${arg_NAME} COMMAND ${arg_NAME} ${corpus})
  _svcmap_register_test(${arg_NAME} ${arg_NAME} fuzz "" OFF)
endfunction()
