"""Messages and stubs of the svcmap protocol, generated from proto/svcmap/v1 by `make clients`."""
