"""Messages of etcd."""
