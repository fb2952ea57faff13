# Finds libnftables with pkg-config and defines the target LibNftables::LibNftables.
find_package(PkgConfig REQUIRED)
pkg_check_modules(LibNftables REQUIRED IMPORTED_TARGET libnftables)
if(NOT TARGET LibNftables::LibNftables)
  add_library(LibNftables::LibNftables ALIAS PkgConfig::LibNftables)
endif()
