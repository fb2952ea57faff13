# Finds Debian's compiled cpp-httplib with pkg-config and defines the target CppHttplib::CppHttplib. The
# target contains the preprocessor definitions with which the library was compiled.
find_package(PkgConfig REQUIRED)
pkg_check_modules(CppHttplib REQUIRED IMPORTED_TARGET cpp-httplib)
if(NOT TARGET CppHttplib::CppHttplib)
  add_library(CppHttplib::CppHttplib ALIAS PkgConfig::CppHttplib)
endif()
