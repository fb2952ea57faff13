# Finds the core of prometheus-cpp with pkg-config and defines the target PrometheusCore::PrometheusCore.
# The CMake package of prometheus-cpp also requires the web servers and clients of other components.
find_package(PkgConfig REQUIRED)
pkg_check_modules(PrometheusCore REQUIRED IMPORTED_TARGET prometheus-cpp-core)
if(NOT TARGET PrometheusCore::PrometheusCore)
  add_library(PrometheusCore::PrometheusCore ALIAS PkgConfig::PrometheusCore)
endif()
