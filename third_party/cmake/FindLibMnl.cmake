# Finds libmnl with pkg-config and defines the target LibMnl::LibMnl.
find_package(PkgConfig REQUIRED)
pkg_check_modules(LibMnl REQUIRED IMPORTED_TARGET libmnl)
if(NOT TARGET LibMnl::LibMnl)
  add_library(LibMnl::LibMnl ALIAS PkgConfig::LibMnl)
endif()
