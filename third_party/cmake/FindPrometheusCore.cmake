# Finds prometheus-cpp's core through pkg-config; gives PrometheusCore::PrometheusCore. Its own CMake
# package also requires the web servers and clients of its other components, which are not used.
find_package(PkgConfig REQUIRED)
pkg_check_modules(PrometheusCore REQUIRED IMPORTED_TARGET prometheus-cpp-core)
if(NOT TARGET PrometheusCore::PrometheusCore)
  add_library(PrometheusCore::PrometheusCore ALIAS PkgConfig::PrometheusCore)
endif()
