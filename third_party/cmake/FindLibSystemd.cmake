# Finds libsystemd with pkg-config and defines the target LibSystemd::LibSystemd.
find_package(PkgConfig REQUIRED)
pkg_check_modules(LibSystemd REQUIRED IMPORTED_TARGET libsystemd)
if(NOT TARGET LibSystemd::LibSystemd)
  add_library(LibSystemd::LibSystemd ALIAS PkgConfig::LibSystemd)
endif()
