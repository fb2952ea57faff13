# Finds gRPC C++ with its reflection service and code generator through pkg-config; gives Grpc::Grpc
# and Grpc::Reflection, and GRPC_CPP_PLUGIN.
find_package(PkgConfig REQUIRED)
pkg_check_modules(Grpc REQUIRED IMPORTED_TARGET grpc++)
find_program(GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)
find_library(GRPC_REFLECTION_LIBRARY grpc++_reflection REQUIRED)
if(NOT TARGET Grpc::Grpc)
  add_library(Grpc::Grpc ALIAS PkgConfig::Grpc)
  add_library(Grpc::Reflection INTERFACE IMPORTED)
  target_link_libraries(Grpc::Reflection INTERFACE
    -Wl,--no-as-needed ${GRPC_REFLECTION_LIBRARY} -Wl,--as-needed Grpc::Grpc)
endif()
