// The Go client as a process that tests control: reads commands as JSON lines from stdin, and writes
// answers, results and errors as JSON lines to stdout. driver.py is the same for Python.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	svcmap "github.com/you/svcmap/api/clients/go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

type settings struct {
	Target, Name, Instance, StateFile string
	Prefix                            string // Not empty: a Store. Target then contains the endpoints.
	Certificates                      string // Folder with ca.pem, client.pem and client.key.
	Epoch                             uint64
	Lease                             int64 // Only of a Store, in seconds.
	Log                               bool  // Without callbacks, so that the client logs.
}

type command struct {
	Do            string
	List, Deleted json.RawMessage
	Timeout       float64
	Accept        bool
}

var output sync.Mutex

func say(event, value any) {
	output.Lock()
	defer output.Unlock()
	line, err := json.Marshal(map[string]any{"event": event, "value": value})
	if err != nil {
		panic(err)
	}
	os.Stdout.Write(append(line, '\n'))
}

type logger struct{}

func (logger) Write(line []byte) (int, error) {
	say("log", strings.TrimSuffix(string(line), "\n"))
	return len(line), nil
}

func text(err error) any {
	if err == nil {
		return nil
	}
	if s, ok := status.FromError(err); ok {
		reason, _ := svcmap.ErrorInfo(err)
		return map[string]any{"code": s.Code(), "details": s.Message(), "reason": reason.String()}
	}
	return map[string]any{"code": nil, "details": err.Error()}
}

func tlsConfig(folder string) *tls.Config {
	authority, err := os.ReadFile(folder + "/ca.pem")
	if err != nil {
		panic(err)
	}
	pair, err := tls.LoadX509KeyPair(folder+"/client.pem", folder+"/client.key")
	if err != nil {
		panic(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}}
}

var lines = bufio.NewReader(os.Stdin)

// next returns false at the end of stdin.
func next() (c command, ok bool) {
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return c, false
	}
	if err := json.Unmarshal(line, &c); err != nil {
		panic(err)
	}
	return c, true
}

func (c command) objects(list json.RawMessage) []svcmap.Object {
	if len(list) == 0 {
		return nil
	}
	objects, err := svcmap.ParseList(list)
	if err != nil {
		panic(err)
	}
	return objects
}

// context returns a context for the timeout of the command.
func (c command) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Duration(c.Timeout*float64(time.Second)))
}

func main() {
	var s settings
	if err := json.Unmarshal([]byte(os.Args[1]), &s); err != nil {
		panic(err)
	}
	if s.Prefix != "" {
		controlStore(s)
		return
	}
	var options []grpc.DialOption
	if s.Certificates != "" {
		options = append(options, grpc.WithTransportCredentials(credentials.NewTLS(tlsConfig(s.Certificates))))
	}
	controller := svcmap.Controller{Name: s.Name, Instance: s.Instance, Epoch: s.Epoch, StateFile: s.StateFile}
	if s.Log {
		log.SetFlags(0)
		log.SetOutput(logger{})
	} else {
		controller.OnResult = func(r *svcmap.Result) { say("result", r.GetMessage()) }
		controller.OnError = func(err error) { say("error", text(err)) }
	}
	agent, err := svcmap.Dial(s.Target, controller, options...)
	if err != nil {
		panic(err)
	}
	for c, ok := next(); ok; c, ok = next() {
		objects := c.objects(c.List)
		switch c.Do {
		case "set":
			if c.Accept {
				say("done", text(agent.SetAndAcceptRemovals(objects)))
			} else {
				say("done", text(agent.Set(objects)))
			}
		case "apply":
			var err error
			for i := 0; i < len(objects) && err == nil; i++ {
				err = agent.Apply(objects[i])
			}
			say("done", text(err))
		case "remove":
			say("done", text(agent.Remove(objects...)))
		case "wait":
			ctx, cancel := c.context()
			say("done", text(agent.Wait(ctx)))
			cancel()
		case "status":
			status := agent.Status()
			say("done", map[string]any{"connected": status.Connected, "node_name": status.NodeName,
				"objects": status.Objects, "rejected": status.Rejected, "held": status.Held, "changes": status.Changes,
				"batches": status.Batches, "snapshots": status.Snapshots, "resumed": status.Resumed})
		case "close":
			say("done", text(agent.Close()))
		}
	}
}
