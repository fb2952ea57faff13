// Keeps a fleet equal to a file with a Kubernetes list in JSON: fleet FILE ETCD-URL PREFIX
package main

import (
	"log"
	"os"
	"time"

	svcmap "github.com/you/svcmap/api/clients/go"
)

func main() {
	store, err := svcmap.NewStore(os.Args[2:3], os.Args[3], svcmap.StoreOptions{})
	for ; err == nil; time.Sleep(time.Second) {
		var objects []svcmap.Object
		if objects, err = svcmap.ReadList(os.Args[1]); err == nil {
			err = store.Set(objects)
		}
	}
	log.Fatal(err)
}
