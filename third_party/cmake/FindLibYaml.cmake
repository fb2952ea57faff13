# Finds libyaml with pkg-config and defines the target LibYaml::LibYaml.
find_package(PkgConfig REQUIRED)
pkg_check_modules(LibYaml REQUIRED IMPORTED_TARGET yaml-0.1)
if(NOT TARGET LibYaml::LibYaml)
  add_library(LibYaml::LibYaml ALIAS PkgConfig::LibYaml)
endif()
