# Finds libnftnl with pkg-config and defines the target LibNftnl::LibNftnl.
find_package(PkgConfig REQUIRED)
pkg_check_modules(LibNftnl REQUIRED IMPORTED_TARGET libnftnl)
if(NOT TARGET LibNftnl::LibNftnl)
  add_library(LibNftnl::LibNftnl ALIAS PkgConfig::LibNftnl)
endif()
