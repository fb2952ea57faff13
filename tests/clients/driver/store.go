package main

import (
	"strings"

	svcmap "github.com/you/svcmap/api/clients/go"
)

// controlStore is the loop of main for a Store.
func controlStore(s settings) {
	options := svcmap.StoreOptions{Name: s.Name, LeaseSeconds: s.Lease, OnError: func(err error) { say("error", text(err)) }}
	if s.Certificates != "" {
		options.TLS = tlsConfig(s.Certificates)
	}
	store, err := svcmap.NewStore(strings.Split(s.Target, ","), s.Prefix, options)
	if err != nil {
		panic(err)
	}
	for c, ok := next(); ok; c, ok = next() {
		switch c.Do {
		case "set":
			if c.Accept {
				say("done", text(store.SetAndAcceptRemovals(c.objects(c.List))))
			} else {
				say("done", text(store.Set(c.objects(c.List))))
			}
		case "update":
			say("done", text(store.Update(c.objects(c.List), c.objects(c.Deleted))))
		case "wait":
			ctx, cancel := c.context()
			_, err := store.Wait(ctx)
			say("done", text(err))
			cancel()
		case "status":
			status := store.Status()
			say("done", map[string]any{"leader": status.Leader, "seq": status.Seq, "epoch": status.Epoch,
				"objects": status.Objects, "held": status.Held, "rejected": status.Rejected,
				"transactions": status.Transactions, "written": status.Written})
		case "close":
			store.Close()
			say("done", nil)
		}
	}
}
