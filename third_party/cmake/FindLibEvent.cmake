# Finds libevent's event loop and HTTP library with pkg-config and defines the target LibEvent::LibEvent.
find_package(PkgConfig REQUIRED)
pkg_check_modules(LibEvent REQUIRED IMPORTED_TARGET libevent_core libevent_extra)
if(NOT TARGET LibEvent::LibEvent)
  add_library(LibEvent::LibEvent ALIAS PkgConfig::LibEvent)
endif()
