# Finds libevent's loop and its HTTP through pkg-config; gives LibEvent::LibEvent.
find_package(PkgConfig REQUIRED)
pkg_check_modules(LibEvent REQUIRED IMPORTED_TARGET libevent_core libevent_extra)
if(NOT TARGET LibEvent::LibEvent)
  add_library(LibEvent::LibEvent ALIAS PkgConfig::LibEvent)
endif()
