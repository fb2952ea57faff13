// Keeps an agent equal to a file with a Kubernetes list in JSON: sync FILE TARGET
package main

import (
	"log"
	"os"
	"time"

	svcmap "github.com/you/svcmap/api/clients/go"
)

func main() {
	agent, err := svcmap.Dial(os.Args[2], svcmap.Controller{Name: "example", StateFile: os.Args[1] + ".sent",
		OnResult: func(r *svcmap.Result) { log.Print(r.GetMessage()) }, OnError: func(err error) { log.Print(err) }})
	for ; err == nil; time.Sleep(200 * time.Millisecond) {
		var objects []svcmap.Object
		if objects, err = svcmap.ReadList(os.Args[1]); err == nil {
			err = agent.Set(objects)
		}
	}
	log.Fatal(err)
}
