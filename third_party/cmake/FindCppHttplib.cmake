# Finds cpp-httplib as Debian compiles it, through pkg-config; gives CppHttplib::CppHttplib with the
# definitions that its header wants.
find_package(PkgConfig REQUIRED)
pkg_check_modules(CppHttplib REQUIRED IMPORTED_TARGET cpp-httplib)
if(NOT TARGET CppHttplib::CppHttplib)
  add_library(CppHttplib::CppHttplib ALIAS PkgConfig::CppHttplib)
endif()
